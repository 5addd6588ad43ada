"""Learning of a notice: SIGTERM to the worker, or the marker file that the agent or the launcher writes."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from types import FrameType

from include.core.json_file import read_json
from include.training.local_files import CHECKPOINT_NOW, NOTICE

# What torchrun gives its workers between SIGTERM and SIGKILL: a two-minute notice, less what the wrapper needs.
SHUTDOWN_TIMEOUT_S = 110
# Kubernetes and Slurm unless told otherwise: terminationGracePeriodSeconds, KillWait.
_USUAL_GRACE_S = 30.0
# How often a training looks for the marker.
LOOK_EVERY_S = 0.02


class StopFlag:
    """Whether this worker was told to stop. All workers hear of it with the next count of ballots.

    Args:
        job_dir: Folder in which the marker appears.
        look_every_s: Seconds between two looks for it; a notice leaves many times that.
        hears_asking: Whether this worker speaks for its machine when somebody asks for a checkpoint.
    """

    def __init__(self, job_dir: Path, *, look_every_s: float = 0.0, hears_asking: bool = True) -> None:
        self._path = job_dir / NOTICE
        self._marker = str(self._path)
        self._signalled_at: float | None = None
        self._look_every_s = look_every_s
        self._look_at = float("-inf")
        self._marked = False
        self._asked = str(job_dir / CHECKPOINT_NOW)
        self._save_wanted, self._save_asked = False, not hears_asking

    def listen(self) -> None:
        """Take SIGTERM as a notice. torchrun sends it to its workers when it gets one, or when a peer is lost."""
        signal.signal(signal.SIGTERM, self._on_signal)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        if self._signalled_at is None:
            self._signalled_at = time.monotonic()

    @property
    def signalled(self) -> bool:
        """Whether it was by SIGTERM."""
        return self._signalled_at is not None

    def raised(self) -> bool:
        """Whether this worker has a notice. Asked at every step, of which there may be a thousand in a second."""
        if self._marked or self._signalled_at is not None:
            return True
        now = time.monotonic()
        if now < self._look_at:
            return False
        self._look_at = now + self._look_every_s
        self._marked = os.access(self._marker, os.F_OK)
        if not self._save_asked:
            self._save_wanted = self._save_asked = os.access(self._asked, os.F_OK)
        return self._marked

    def save_wanted(self) -> bool:
        """Whether somebody has asked for a checkpoint since this was asked last, as of the last look for a notice."""
        wanted, self._save_wanted = self._save_wanted, False
        return wanted

    def grace_s(self) -> float | None:
        """Seconds until this worker is killed, None without a notice of its own."""
        ends = [] if self._signalled_at is None else [self._signalled_at + SHUTDOWN_TIMEOUT_S - time.monotonic()]
        try:
            written_at = self._path.stat().st_mtime
        except FileNotFoundError:
            return min(ends, default=None)
        told = read_json(self._path)
        given = told.get("grace_s") if isinstance(told, dict) else None
        grace_s = float(given) if isinstance(given, int | float) else _USUAL_GRACE_S
        return max(0.0, min([*ends, grace_s - (time.time() - written_at)]))
