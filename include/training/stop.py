"""Learning of a notice: SIGTERM to the worker, or the marker file that the agent or the launcher writes."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from types import FrameType

from include.training.local_files import NOTICE


class StopFlag:
    """Whether this worker was told to stop. All workers hear of it with the next count of ballots.

    Args:
        job_dir: Folder in which the marker appears.
    """

    def __init__(self, job_dir: Path) -> None:
        self._marker = str(job_dir / NOTICE)
        self._signalled = False

    def listen(self) -> None:
        """Take SIGTERM as a notice. torchrun sends it to its workers when it gets one, or when a peer is lost."""
        signal.signal(signal.SIGTERM, self._on_signal)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._signalled = True

    @property
    def signalled(self) -> bool:
        """Whether it was by SIGTERM."""
        return self._signalled

    def raised(self) -> bool:
        """Whether this worker has a notice. Asked at every step, so it is one system call."""
        return self._signalled or os.access(self._marker, os.F_OK)  # noqa: PTH - a Path costs more than the call itself
