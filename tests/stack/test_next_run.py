"""From the series of a training to the words of the report: every advice has a way from a verdict."""

from __future__ import annotations

import pytest

from include.core.contracts.diagnosis import Slowness
from include.core.json_codec import from_json, to_json
from include.sizing.comparison import Actual
from include.sizing.recommendation import Recommendation, recommend
from include.training.diagnosis import diagnose
from include.training.telemetry.facts import RankTelemetry
from stack.printed_summary import lines
from stack.run_facts import gather
from stack.summary import summarise
from tests.stack.run_documents import PREFIX, whole_run
from tests.stack.test_summary import outcome
from tests.support.diagnosis_series import GIB, device_series, gpu, square, step_facts
from tests.support.offers import offer
from tests.support.plans import plan, ranked

WELL = {"data_wait": 0.02, "h2d": 0.01, "compute": 0.95}
HUNGRY = {"step_s": 0.3, "data_wait": 0.4, "h2d": 0.01, "compute": 0.58}
WAVES = {"gpu_busy": square(0.9, 0.1, period_s=10, low_s=4), "gpu_memory_used_bytes": 50 * GIB}
IDLE = {
    "gpu_busy": 0.31,
    "sm_active": 0.3,
    "tensor_active": 0.12,
    "dram_active": 0.14,
    "gpu_memory_used_bytes": 13 * GIB,
}
FULL = {"gpu_busy": 0.95, "sm_active": 0.82, "tensor_active": 0.41, "dram_active": 0.4,
        "gpu_memory_used_bytes": 78.5 * GIB}  # fmt: skip
GB = 10**9
HERE = offer(accelerator_memory_bytes=80 * GB)


def trained(*, machine=None, steps=None, **series):
    return RankTelemetry(steps=steps or step_facts(step_s=0.4, **WELL), machine=machine or gpu(),
                         series=device_series(seed=3, **series))  # fmt: skip


@pytest.mark.parametrize(
    ("telemetry", "alternatives", "verdict", "action", "rented"),
    [
        (
            trained(machine=gpu(peak=0.97), **FULL),
            (ranked(12.0, instance_type="large", accelerator_memory_bytes=141 * GB),),
            Slowness.NEAR_OUT_OF_MEMORY, "larger GPU", "large",
        ),
        (
            trained(steps=step_facts(**HUNGRY), host_cpu=0.96, **WAVES),
            (ranked(12.0, instance_type="cores", vcpus=32),),
            Slowness.DATA_BOUND, "more CPU", "cores",
        ),
        (
            trained(steps=step_facts(**HUNGRY), host_cpu=0.3, **WAVES),
            (ranked(12.0, instance_type="cores", vcpus=32),),
            Slowness.DATA_BOUND, "fix loading", "g0.test",
        ),
        (
            trained(machine=gpu(peak=0.15), **IDLE),
            (ranked(4.0, instance_type="small", accelerator_memory_bytes=24 * GB),),
            Slowness.OVERSIZED, "smaller GPU", "small",
        ),
        (
            trained(machine=gpu(peak=0.15), **IDLE),
            (ranked(2.0, instance_type="piece", mig_profile="2g.20gb", accelerator_memory_bytes=20 * GB),),
            Slowness.OVERSIZED, "MIG slice", "piece",
        ),
    ],
)  # fmt: skip
def test_every_advice_follows_from_a_verdict_and_is_in_the_report(
    telemetry, alternatives, verdict, action, rented, file_store
):
    said = diagnose([telemetry])
    assert said.verdict is verdict
    found = recommend(
        plan=plan(*alternatives, chosen=HERE),
        family="cnn",
        diagnosis=said,
        actual=Actual(outcome="done", usd=20.0, time_s=7200.0, lost_s=0.0),
    )
    assert (found.action, found.instance_type) == (action, rented)
    assert from_json(Recommendation, to_json(found)) == found
    whole_run(file_store)
    learned = file_store.get_json(f"{PREFIX}/learned.json")
    file_store.put_json(f"{PREFIX}/learned.json", {**learned, "recommendation": to_json(found)})
    shown = dict(lines(summarise(outcome(), gather(file_store, PREFIX))))
    assert shown["Next run"].startswith(f"{action}: 1 x {rented}")
    assert said.reason in shown["Next run"]
