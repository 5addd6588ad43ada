"""A few real training steps on this machine: the only way to know how long a step takes on its CPU.

Only the profile job imports this module.
"""

from __future__ import annotations

import statistics
import time

from include.sizing.trace import StepShape

WARM_STEPS = 3
MEASURED_STEPS = 8


def cpu_s_per_step(shape: StepShape, *, threads: int) -> float:
    """CPU seconds of one step (forward, backward, optimizer) of the real model on random data.

    Args:
        shape: The step.
        threads: Threads of the worker, as in the training.

    Returns:
        Median over `MEASURED_STEPS` steps after `WARM_STEPS` warm ones: CPU seconds of the whole process, so that
        neighbours on the machine hardly matter.
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        model = shape.build().train()
        optimizer = shape.make_optimizer(model, foreach=None)
        batch = shape.samples()
        seconds = []
        for _ in range(WARM_STEPS + MEASURED_STEPS):
            started = time.process_time()
            shape.descend(model, optimizer, batch)
            seconds.append(time.process_time() - started)
    finally:
        torch.set_num_threads(before)
    return statistics.median(seconds[WARM_STEPS:])
