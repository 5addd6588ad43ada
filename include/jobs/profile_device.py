"""Real steps on a device, recorded by the readers that a training uses (NVML, DCGM, host)."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch

from include.core.contracts.device_profile import DeviceProfile
from include.core.contracts.plan import Layout
from include.parallel.recompute import recompute_activations
from include.sizing.measure import MOST_S, paced_steps
from include.sizing.trace import StepShape
from include.training.diagnosis import diagnose
from include.training.measured import measured_of
from include.training.memory import TrainingOutOfMemoryError, raise_if_out_of_memory
from include.training.telemetry.recording import recording
from include.training.telemetry.step_timer import StepTimer

# A profile lasts seconds where a training lasts hours.
_SAMPLE_EVERY_S = 0.1


def profile_on(
    device: torch.device, shape: StepShape, *, layout: Layout, folder: Path, dcgm_url: str, most_s: float = MOST_S
) -> DeviceProfile:
    """Run warm and measured steps of the model on a device.

    Args:
        device: Where to run.
        shape: One step of the training.
        layout: Layout of the shape's execution.
        folder: Scratch folder; ``telemetry.json`` is left there.
        dcgm_url: Where a DCGM exporter may answer.
        most_s: Seconds in which steps may begin.
    """
    _forget_peaks(device)
    timer, warm_steps, out_of_memory = StepTimer(), 0, False
    with (
        _exact(),
        recording(
            timer, folder=folder, device=device, rank=0, world=1, dcgm_url=dcgm_url, every_s=_SAMPLE_EVERY_S
        ) as recorder,
    ):
        try:
            warm_steps = _run_steps(shape, device, timer, most_s)
        except TrainingOutOfMemoryError:
            out_of_memory = True
    facts = recorder.facts()
    measured = measured_of([facts])
    assert measured is not None
    return DeviceProfile(
        measured=replace(measured, layout=layout),
        warm_steps=warm_steps,
        out_of_memory=out_of_memory,
        diagnosis=diagnose([facts]),
        sources=facts.sources,
    )


def _run_steps(shape: StepShape, device: torch.device, timer: StepTimer, most_s: float) -> int:
    """Run the steps; returns how many of them were warm ones.

    Raises:
        TrainingOutOfMemoryError: They do not fit into the device.
    """
    warm = 0
    try:
        # What is timed as evaluation is no part of any step: neither this nor a warm step.
        with timer.evaluating():
            model = shape.build().train().to(device)
            recompute_activations(model, shape.execution.recompute)
            optimizer = shape.make_optimizer(model, foreach=None)
            batch = tuple(part.to(device) for part in shape.samples())
        for counts in paced_steps(most_s=most_s):
            with timer.computing() if counts else timer.evaluating():
                shape.descend(model, optimizer, batch)
                if device.type == "cuda":
                    torch.cuda.synchronize(device)
            if counts:
                timer.end_step(samples=shape.batch)
            else:
                warm += 1
    except (MemoryError, RuntimeError) as error:
        raise_if_out_of_memory(error, where="the profile", step=f"micro-batch {shape.execution.micro_batch}")
        raise
    return warm


@contextmanager
def _exact() -> Iterator[None]:
    """The algorithms that a training uses, which are not always the fastest."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)  # noqa: FBT003 - torch takes it by position only
    fill, torch.utils.deterministic.fill_uninitialized_memory = (
        torch.utils.deterministic.fill_uninitialized_memory,
        False,
    )
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
        torch.utils.deterministic.fill_uninitialized_memory = fill


def _forget_peaks(device: torch.device) -> None:
    if device.type == "cuda":
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
