"""Telemetry of one worker from its first step to its end, however it ends."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from include.catalog.local import usable_cores, usable_ram_bytes
from include.core.json_codec import to_json
from include.core.json_file import write_json
from include.training.telemetry.dcgm import DcgmReader
from include.training.telemetry.device import device_memory, device_uuid
from include.training.telemetry.facts import LOADER_QUEUE, MachineFacts, RankTelemetry
from include.training.telemetry.host import HostReader
from include.training.telemetry.local_files import TELEMETRY
from include.training.telemetry.nvml import NvmlReader
from include.training.telemetry.profiler import StepProfiler
from include.training.telemetry.readers import Reader
from include.training.telemetry.sampler import Sampler
from include.training.telemetry.step_timer import StepTimer

_log = logging.getLogger("plimsoll.telemetry")
# What a worker that is killed leaves behind is at most this old.
_WRITE_EVERY_S = 5.0


class QueueReader:
    """How many batches are ready and not yet taken, as the source of the data says.

    Args:
        depth: Asks the source; None where it does not know.
    """

    name = "loader"

    def __init__(self, depth: Callable[[], float | None]) -> None:
        self._depth = depth

    def open(self) -> str | None:
        """Always answers."""
        return None

    def read(self) -> dict[str, float | None]:
        """One look."""
        return {LOADER_QUEUE: self._depth()}

    def close(self) -> None:
        """Nothing is open."""


class Recorder:
    """Samples beside the training and writes ``telemetry.json``.

    Args:
        timer: The loop's timer.
        folder: The worker's scratch folder.
        device: Its torch device.
        readers: Who measures, in order of preference.
        profiler: Looks for its order in the sampler's rhythm.
        rank: The worker's rank.
        world: Number of workers.
        every_s: Seconds between two measurements.
    """

    def __init__(
        self,
        *,
        timer: StepTimer,
        folder: Path,
        device: Any,  # noqa: ANN401 - a torch.device
        readers: Sequence[Reader],
        profiler: StepProfiler | None = None,
        rank: int = 0,
        world: int = 1,
        every_s: float = 1.0,
    ) -> None:
        self._timer, self._folder, self._device = timer, folder, device
        self._profiler = profiler
        self._rank, self._world = rank, world
        self._nvml = next((reader for reader in readers if isinstance(reader, NvmlReader)), None)
        self._sampler = Sampler(readers, every_s=every_s, after_each=self._after_each)
        self._written_at = time.monotonic()
        self._began_at: float | None = None

    def start(self) -> None:
        """Begin to sample; the first step begins now."""
        if self._profiler is not None:
            self._timer.after_step = self._profiler.after_step
        self._sampler.start()
        self._began_at = time.time()
        self._timer.begin()

    def stop(self) -> None:
        """End the sampling and write everything. Never raises: telemetry must not end a training."""
        try:
            if self._profiler is not None:
                self._profiler.close()
            self._sampler.stop()
            self._write()
        except Exception:  # noqa: BLE001 - as said above
            _log.exception("no telemetry was written")

    def facts(self) -> RankTelemetry:
        """What is known so far."""
        return RankTelemetry(
            rank=self._rank,
            world=self._world,
            began_at=self._began_at,
            steps=self._timer.facts(),
            series=self._sampler.facts(),
            sources=dict(self._sampler.sources),
            machine=self._machine(),
        )

    def _machine(self) -> MachineFacts:
        found = MachineFacts(
            host_memory_bytes=usable_ram_bytes(), host_cores=usable_cores(), **device_memory(self._device)
        )
        answers = self._nvml is not None and self._sampler.sources.get(self._nvml.name) == "answers"
        if self._nvml is not None and answers:
            found = dataclasses.replace(found, pcie_bytes_per_s=self._nvml.pcie_bytes_per_s())
        steps = self._timer.facts()
        saves = steps.parts["save"].entries
        return dataclasses.replace(found, checkpoint_every_s=steps.seconds / saves if saves else None)

    def _after_each(self) -> None:
        if self._profiler is not None:
            self._profiler.look_for_order()
        if time.monotonic() - self._written_at >= _WRITE_EVERY_S:
            self._write()

    def _write(self) -> None:
        self._written_at = time.monotonic()
        write_json(self._folder / TELEMETRY, to_json(self.facts()))


@contextmanager
def recording(
    timer: StepTimer,
    *,
    folder: Path,
    device: Any,  # noqa: ANN401 - a torch.device
    rank: int,
    world: int,
    dcgm_url: str,
    profile_steps: int = 0,
    loader_queue: Callable[[], float | None] | None = None,
    every_s: float = 1.0,
) -> Iterator[Recorder]:
    """Record the telemetry of a worker while the block runs; ``telemetry.json`` is complete after it.

    Args:
        timer: The loop's timer; its first step begins with the block.
        folder: The worker's scratch folder.
        device: Its torch device.
        rank: Its rank; only rank 0 is profiled.
        world: Number of workers.
        dcgm_url: Where a DCGM exporter may answer.
        profile_steps: Steps to profile from the start on, 0 for none.
        loader_queue: Depth of the loader's queue, where the source has one.
        every_s: Seconds between two measurements.
    """
    uuid = device_uuid(device)
    readers: list[Reader] = [HostReader()]
    if device.type == "cuda":
        readers = [DcgmReader(url=dcgm_url, uuid=uuid), NvmlReader(uuid=uuid), *readers]
    if loader_queue is not None:
        readers.append(QueueReader(loader_queue))
    profiler = StepProfiler(folder=folder, steps=profile_steps) if rank == 0 else None
    recorder = Recorder(
        timer=timer,
        folder=folder,
        device=device,
        readers=readers,
        profiler=profiler,
        rank=rank,
        world=world,
        every_s=every_s,
    )
    recorder.start()
    try:
        yield recorder
    finally:
        recorder.stop()
