"""What the training tells while it runs: progress for people, executed steps for the accounts."""

from __future__ import annotations

import logging
import math
import mmap
import struct
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from include.core.json_file import read_json, write_json
from include.training.local_files import PROGRESS, STEPS, STEPS_RECORD

_log = logging.getLogger("plimsoll.train")
_SHORTEST_INTERVAL_S = 0.5
_FIRST_INTERVAL_S, _FIRST_S = 0.1, 10.0
# Resumed step, last executed step, committed step, useful seconds.
_FIELDS = struct.Struct("=qqqd")
_SLOTS = 2
# The first byte says which slot counts, 0 for none yet; slots begin on a boundary of eight.
_HEAD = 8
_SIZE = _HEAD + _SLOTS * _FIELDS.size
_STARTS = tuple(_HEAD + slot * _FIELDS.size for slot in range(_SLOTS))


@dataclass(slots=True, kw_only=True)
class StepAccount:
    """Which steps this attempt executed: a record in a file of fixed size that is mapped into memory.

    Writing costs a microsecond and no system call, and the kernel keeps it when the process is killed. Two slots take
    turns and one byte says which counts, so no reader sees half of one. The launcher makes ``steps.json`` of it.

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
    _record: mmap.mmap | None = None
    _slot: int = 0

    def record(self, *, last_executed_step: int, committed_step: int) -> None:
        """Write the account."""
        record = self._record
        if record is None:
            record = self._record = _open_record(self.job_dir / STEPS_RECORD)
        slot = self._slot
        _FIELDS.pack_into(record, _STARTS[slot], self.resumed_step, last_executed_step, committed_step, self.useful_s)
        record[0] = slot + 1
        self._slot = 1 - slot

    def close(self) -> None:
        """Leave the account as ``steps.json`` too."""
        account = read_account(self.job_dir)
        if account is None:
            return
        try:
            write_json(self.job_dir / STEPS, account)
        except OSError as error:  # the record holds the same
            _log.warning("the account of steps cannot be written to %s: %s", self.job_dir, error)

    @property
    def samples_per_s(self) -> float | None:
        """Throughput of this attempt, None before its first step."""
        return self.samples / self.useful_s if self.useful_s > 0 else None


def _open_record(path: Path) -> mmap.mmap:
    with path.open("w+b") as file:
        file.write(bytes(_SIZE))
        file.flush()
        return mmap.mmap(file.fileno(), _SIZE)


def read_account(job_dir: Path) -> dict[str, Any] | None:
    """The account of the worker in that folder, running or dead; None where it left none.

    The keys are ``resumed_step``, ``last_executed_step``, ``committed_step`` and ``useful_s``.
    """
    try:
        data = (job_dir / STEPS_RECORD).read_bytes()
    except FileNotFoundError:
        data = b""
    if len(data) != _SIZE or not 1 <= data[0] <= _SLOTS:
        found = read_json(job_dir / STEPS)
        return found if isinstance(found, dict) else None
    resumed, executed, committed, useful_s = _FIELDS.unpack_from(data, _STARTS[data[0] - 1])
    return {
        "resumed_step": resumed,
        "last_executed_step": executed,
        "committed_step": committed,
        "useful_s": round(useful_s, 6),
    }


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
    _began_at: float = field(default_factory=time.monotonic)
    _failed: bool = False

    def due(self) -> bool:
        """Whether it is time to show the progress again: twice a second, more often in the first seconds.

        Trainings that last a second or two have to be seen in their middle as well: drills interrupt them there.
        """
        now = time.monotonic()
        return now - self._written_at >= (
            _FIRST_INTERVAL_S if now - self._began_at < _FIRST_S else _SHORTEST_INTERVAL_S
        )

    def fraction(self, step: int) -> float:
        """How far the training is at a step, 0..1, as it is shown."""
        return round(step / self.total, 4)

    def show(self, *, step: int, epoch: int, loss: float, samples_per_s: float | None, **more: Any) -> None:  # noqa: ANN401 - any JSON value
        """Write the progress. A disk that takes none does not end the training: it is for people to look at."""
        self._written_at = time.monotonic()
        fixed = {"fraction": self.fraction(step), "step": step, "total": self.total, "epochs": self.epochs}
        known = round(loss, 6) if math.isfinite(loss) else None
        shown = {"epoch": epoch, "loss": known, "samples_per_s": samples_per_s and round(samples_per_s, 1)}
        try:
            write_json(self.job_dir / PROGRESS, {**fixed, **shown, **more, **self._kept})
        except OSError as error:
            if not self._failed:
                _log.warning("the progress cannot be written to %s, the training goes on: %s", self.job_dir, error)
            self._failed = True

    def keep(self, **values: Any) -> None:  # noqa: ANN401 - any JSON value
        """Add values that stay in all later progress, such as the last validation accuracy."""
        self._kept |= values
