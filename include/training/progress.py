"""What the training tells while it runs: progress for people, executed steps for the accounts."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from include.core.json_file import write_json
from include.training.local_files import PROGRESS, STEPS

_SHORTEST_INTERVAL_S = 0.2


@dataclass(slots=True, kw_only=True)
class StepAccount:
    """``steps.json``: which steps this attempt executed. Rewritten at each step, so it holds after a kill too.

    Attributes:
        job_dir: The job's scratch folder.
        resumed_step: Step this attempt started from.
        useful_s: Seconds spent in steps so far.
        samples: Samples consumed in these steps.
    """

    job_dir: Path
    resumed_step: int
    useful_s: float = 0.0
    samples: int = 0

    def record(self, *, last_executed_step: int, committed_step: int) -> None:
        """Write the account."""
        write_json(
            self.job_dir / STEPS,
            {
                "resumed_step": self.resumed_step,
                "last_executed_step": last_executed_step,
                "committed_step": committed_step,
                "useful_s": round(self.useful_s, 6),
            },
        )

    @property
    def samples_per_s(self) -> float | None:
        """Throughput of this attempt, None before its first step."""
        return self.samples / self.useful_s if self.useful_s > 0 else None


@dataclass(slots=True, kw_only=True)
class Progress:
    """``progress.json``, which goes out with the next heartbeat.

    Attributes:
        job_dir: The job's scratch folder.
        total: Steps of the whole training.
        epochs: Epochs of the whole training.
    """

    job_dir: Path
    total: int
    epochs: int
    _kept: dict[str, Any] = field(default_factory=dict)
    _written_at: float = float("-inf")

    def show(self, *, step: int, epoch: int, loss: float, samples_per_s: float | None) -> None:
        """Write the progress, at most five times a second and at the last step."""
        now = time.monotonic()
        if now - self._written_at < _SHORTEST_INTERVAL_S and step < self.total:
            return
        self._written_at = now
        self._write(
            step=step, epoch=epoch, loss=round(loss, 6), samples_per_s=samples_per_s and round(samples_per_s, 1)
        )

    def keep(self, **values: Any) -> None:  # noqa: ANN401 - any JSON value
        """Add values that stay in all later progress, such as the last validation accuracy."""
        self._kept |= values

    def _write(self, *, step: int, **values: Any) -> None:  # noqa: ANN401 - any JSON value
        fixed = {"fraction": round(step / self.total, 4), "step": step, "total": self.total, "epochs": self.epochs}
        write_json(self.job_dir / PROGRESS, {**fixed, **values, **self._kept})
