from __future__ import annotations

import pytest

from include.core.contracts.diagnosis import Finding
from include.training.diagnosis_evidence import Evidence, Missing
from include.training.diagnosis_pattern import scalloped
from include.training.telemetry.facts import GPU_BUSY, RankTelemetry
from tests.support.diagnosis_series import Shape, device_series, gpu, late_start, square, step_facts
from tests.support.series import series_of


def judge(busy: Shape, power: Shape | float | None, *, every_s: float | None = None, steps=None):
    series = device_series(seed=6, gpu_busy=busy, **({} if power is None else {"gpu_power_w": power}))
    rank = RankTelemetry(series=series, machine=gpu(checkpoint_every_s=every_s), steps=steps)
    return scalloped(Evidence([rank]))


@pytest.mark.parametrize("period_s", [6, 8, 15])
def test_period_is_found(period_s: int) -> None:
    low_s = period_s // 2
    found = judge(square(0.9, 0.05, period_s=period_s, low_s=low_s), square(300, 90, period_s=period_s, low_s=low_s))
    assert isinstance(found, Finding)
    assert found.evidence["period_s"] == pytest.approx(period_s, abs=1)
    assert found.evidence["low_share"] == pytest.approx(low_s / period_s, abs=0.05)


def test_utilisation_that_falls_alone_is_not_believed() -> None:
    assert judge(square(0.9, 0.05, period_s=8, low_s=4), 300) is None
    assert isinstance(judge(square(0.9, 0.05, period_s=8, low_s=4), None), Missing)


def test_rare_or_short_dips_are_validations_and_checkpoints() -> None:
    assert judge(square(0.9, 0.05, period_s=100, low_s=20), square(300, 90, period_s=100, low_s=20)) is None
    assert judge(square(0.9, 0.05, period_s=20, low_s=2), square(300, 90, period_s=20, low_s=2)) is None


def test_rest_before_the_first_work_is_no_dip() -> None:
    assert judge(late_start(0.9, after_s=120), lambda t: 80 if t < 120 else 300) is None


def test_rhythm_of_the_checkpoints_is_a_save_stall_where_saving_is_not_timed() -> None:
    shapes = square(0.9, 0.05, period_s=20, low_s=5), square(300, 90, period_s=20, low_s=5)
    found = judge(*shapes, every_s=20)
    assert isinstance(found, Finding)
    assert found.kind == "save stall"
    timed = judge(*shapes, every_s=20, steps=step_facts(step_s=0.1, save=0.001, compute=0.9))
    assert isinstance(timed, Finding)
    assert timed.kind == "scalloped"


def test_minute_is_needed() -> None:
    short = RankTelemetry(series={GPU_BUSY: series_of([0.9, 0.0] * 20, every_s=1.0)})
    assert isinstance(scalloped(Evidence([short])), Missing)
