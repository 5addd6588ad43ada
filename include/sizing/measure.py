"""A few real training steps on this machine: the only way to know how long a step takes on its CPU.

Only the profile job imports this module.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from include.sizing.trace import StepShape

WARM_STEPS = 5
MEASURED_STEPS = 20
# A model whose steps take seconds is known well enough after a few of them.
MOST_S = 20.0
# Of that for warm steps, so that there is time left for steps that count.
_WARM_SHARE = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCost:
    """Real steps on the CPU.

    Attributes:
        cpu_s: CPU seconds of one step of the whole process: median over the measured ones.
        steps: Measured steps.
        warm_steps: Steps before them that do not count.
    """

    cpu_s: float
    steps: int
    warm_steps: int


def paced_steps(*, most_s: float = MOST_S, clock: Callable[[], float] = time.monotonic) -> Iterator[bool]:
    """One entry per step to run, telling whether it counts: `WARM_STEPS` that do not, then `MEASURED_STEPS` that do.

    When the time is over no further step is begun, but one of each kind always is.

    Args:
        most_s: Seconds in which steps may begin.
        clock: Monotonic seconds.
    """
    began = clock()
    for counts, most, until in ((False, WARM_STEPS, _WARM_SHARE * most_s), (True, MEASURED_STEPS, most_s)):
        for _ in range(most):
            yield counts
            if clock() - began >= until:
                break


def cpu_s_per_step(shape: StepShape, *, threads: int, most_s: float = MOST_S) -> StepCost:
    """CPU seconds of one step (forward, backward, optimizer) of the real model on random data.

    They are those of the whole process and not wall time, so that neighbours on the machine hardly matter.

    Args:
        shape: The step.
        threads: Threads of the worker, as in the training.
        most_s: Wall seconds in which steps may begin.
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    seconds: dict[bool, list[float]] = {False: [], True: []}
    try:
        model = shape.build().train()
        optimizer = shape.make_optimizer(model, foreach=None)
        batch = shape.samples()
        for counts in paced_steps(most_s=most_s):
            started = time.process_time()
            shape.descend(model, optimizer, batch)
            seconds[counts].append(time.process_time() - started)
    finally:
        torch.set_num_threads(before)
    return StepCost(cpu_s=statistics.median(seconds[True]), steps=len(seconds[True]), warm_steps=len(seconds[False]))
