from __future__ import annotations

from collections.abc import Callable

import pytest

from include.core.contracts.diagnosis import Diagnosis, Slowness
from include.core.json_codec import to_json
from include.core.store import ObjectStore
from include.jobs import account
from include.jobs.training_series import training_series
from include.registry.mlflow_registry import MlflowRegistry
from include.training.telemetry.facts import RankTelemetry
from include.training.telemetry_report import AttemptTelemetry
from tests.support.diagnosis_series import device_series, step_facts
from tests.support.jobs import build_request

BEGAN_AT = 1_800_000_000.0


def put_attempt(
    store: ObjectStore, prefix: str, number: int, *, resumed_step: int = 0, verdict: Slowness = Slowness.OK
) -> None:
    rank = RankTelemetry(
        began_at=BEGAN_AT + 1000 * number,
        steps=step_facts(step_s=0.5, data_wait=0.2, compute=0.7),
        series=device_series(seed=number, host_cpu=0.5, gpu_power_w=300),
    )
    found = AttemptTelemetry(ranks=(rank,), diagnosis=Diagnosis(verdict=verdict, reason="because", fix="try this"))
    store.put_json(f"{prefix}/jobs/train-{number}/telemetry.json", to_json(found))
    store.put_json(f"{prefix}/jobs/train-{number}/steps.json", {"resumed_step": resumed_step})


def test_parts_of_the_step_stand_at_their_optimizer_steps(file_store: ObjectStore) -> None:
    put_attempt(file_store, "runs/x", 2, resumed_step=600)
    points = [p for p in training_series(file_store, run_prefix="runs/x").points if p.name == "training/data_wait"]
    assert [point.step for point in points] == [600 + 20 * place for place in range(1, 31)]
    assert all(point.value == pytest.approx(0.2) for point in points)
    assert points[0].at_ms == pytest.approx(1000 * (BEGAN_AT + 2010))


def test_part_that_is_not_timed_has_no_series(file_store: ObjectStore) -> None:
    put_attempt(file_store, "runs/x", 1)
    names = {point.name for point in training_series(file_store, run_prefix="runs/x").points}
    assert names == {
        "training/data_wait",
        "training/compute",
        "training/samples_per_s",
        "system/host_cpu",
        "system/gpu_power_w",
    }


def test_attempts_follow_each_other_and_the_last_one_has_the_verdict(file_store: ObjectStore) -> None:
    for number in (10, 2, 1):
        put_attempt(file_store, "runs/x", number, verdict=Slowness.DATA_BOUND if number == 10 else Slowness.OK)
    found = training_series(file_store, run_prefix="runs/x")
    assert found.tags == {
        "training.verdict": "data-bound",
        "training.reason": "because",
        "training.fix": "try this",
    }
    system = [point for point in found.points if point.name == "system/host_cpu"]
    assert [point.step for point in system] == sorted(point.step for point in system)
    assert system[-1].step > 9000


def test_run_without_telemetry_and_one_of_another_format(file_store: ObjectStore) -> None:
    file_store.put_json("runs/x/jobs/train-1/telemetry.json", {"version": 99})
    file_store.put_json("runs/x/jobs/prepare-1/telemetry.json", {})
    assert training_series(file_store, run_prefix="runs/x").points == ()


def test_series_and_verdict_are_in_the_run_of_mlflow(
    file_store: ObjectStore, registry_uri: str, context_for: Callable
) -> None:
    request = build_request("account", inputs={"totals": {"usd": "0.25"}})
    put_attempt(file_store, request.run_prefix, 1, verdict=Slowness.STRAGGLER)
    context = context_for(request, file_store, mlflow_uri=registry_uri)
    run = account.run(context).mlflow_run_id
    assert account.run(context).mlflow_run_id == run
    client = MlflowRegistry(registry_uri)._client
    data = client.get_run(run).data
    assert data.metrics["usd"] == 0.25
    assert data.tags["plimsoll.training.verdict"] == "straggler"
    history = client.get_metric_history(run, "training/samples_per_s")
    assert len(history) == 30, "a repeated job logs nothing twice"
    assert data.metrics["system/gpu_power_w"] == pytest.approx(300, rel=0.1)
