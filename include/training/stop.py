"""Learning of a notice: SIGTERM to the worker, or the marker file that the agent or the launcher writes."""

from __future__ import annotations

import signal
from pathlib import Path
from types import FrameType

from include.training.local_files import NOTICE


class StopFlag:
    """Whether this worker was told to stop.

    Args:
        job_dir: Folder in which the marker appears.
    """

    def __init__(self, job_dir: Path) -> None:
        self._marker = job_dir / NOTICE
        self._signalled = False

    def listen(self) -> None:
        """Take SIGTERM as a notice. torchrun sends it to its workers when it gets one, or when a peer is lost."""
        signal.signal(signal.SIGTERM, self._on_signal)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._signalled = True

    def raised(self) -> bool:
        """Whether this worker has a notice."""
        return self._signalled or self._marker.exists()

    def agreed(self) -> bool:
        """Whether any worker has a notice: all workers get the same answer at the same step."""
        import torch  # noqa: PLC0415 - the handler is installed before torch is imported
        from torch import distributed  # noqa: PLC0415 - as above

        flag = torch.tensor([float(self.raised())])
        distributed.all_reduce(flag, op=distributed.ReduceOp.MAX)
        return bool(flag.item())
