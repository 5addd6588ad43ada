"""How many real steps are run, and for how long."""

from __future__ import annotations

import itertools

import pytest
from torch import nn

from include.parallel.layout import Execution
from include.sizing.measure import cpu_s_per_step, paced_steps
from include.sizing.trace import StepShape


def counted(*, step_s: float, most_s: float = 20.0) -> tuple[int, int, float]:
    """Warm steps, measured steps and seconds of a model whose steps take so long."""
    ticks = itertools.count()  # the clock is read at the start and after each step
    found = list(paced_steps(most_s=most_s, clock=lambda: step_s * next(ticks)))
    assert found == sorted(found), "no warm step after a measured one"
    return found.count(False), found.count(True), step_s * len(found)


@pytest.mark.parametrize(
    ("step_s", "warm", "measured"), [(0.01, 5, 20), (0.8, 5, 20), (1.0, 5, 15), (3.0, 2, 5), (60.0, 1, 1)]
)
def test_slow_models_run_fewer_steps_and_at_least_one_of_each_kind(step_s: float, warm: int, measured: int) -> None:
    found_warm, found_measured, seconds = counted(step_s=step_s)
    assert (found_warm, found_measured) == (warm, measured)
    assert seconds <= max(20.0 + step_s, 2 * step_s)


def test_the_result_says_how_many_steps_were_measured() -> None:
    shape = StepShape(
        build=lambda: nn.Linear(8, 3), input_shape=(8,), classes=3, batch=4, optimizer="adamw",
        execution=Execution(micro_batch=4, precision="fp32"),
    )  # fmt: skip
    hurried, whole = cpu_s_per_step(shape, threads=1, most_s=0.0), cpu_s_per_step(shape, threads=1)
    assert (hurried.warm_steps, hurried.steps) == (1, 1)
    assert (whole.warm_steps, whole.steps) == (5, 20)
    assert whole.cpu_s > 0
