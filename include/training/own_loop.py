"""For a training loop of one's own: save, restore, should_stop, report. What remains is the user's.

The loop keeps its framework and gets what makes capacity that goes away safe: checkpoints that are committed or do not
exist, the notice, and an account of steps that survives a kill. Every worker of a distributed training makes the same
calls in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import SupportsFloat

import torch
from torch import distributed

from include.core.ids import content_digest
from include.core.store import ObjectStore
from include.training.checkpoint import Checkpointer
from include.training.own_loop_checks import (
    check_count,
    check_fits,
    check_loop,
    check_settings,
    check_tensors,
    plain_number,
)
from include.training.progress import Progress, StepAccount
from include.training.stop import StopFlag


@dataclass(slots=True, kw_only=True)
class OwnLoop:
    """The contract between a loop and the project.

    Attributes:
        store: Where checkpoints go.
        run_prefix: Prefix of the run in it.
        job_dir: Scratch folder of the attempt; the notice and the progress are files in it.
        attempt: Number of the attempt, from 1.
        settings: Whatever shapes the training; a checkpoint of other ones is refused.
        data: Name or digest of the data; a checkpoint of other data is refused.
        total_steps: Steps of the whole training.
    """

    store: ObjectStore
    run_prefix: str
    job_dir: Path
    attempt: int
    settings: Mapping[str, object]
    data: str
    total_steps: int
    _checkpoints: Checkpointer = field(init=False)
    _stop: StopFlag = field(init=False)
    _progress: Progress = field(init=False)
    _account: StepAccount = field(init=False)
    _step: int = 0
    _saved: int = -1

    def __post_init__(self) -> None:
        self.job_dir = Path(self.job_dir)
        check_loop(run_prefix=self.run_prefix, job_dir=self.job_dir, attempt=self.attempt, total_steps=self.total_steps)
        check_settings(self.settings)
        self._stop = StopFlag(self.job_dir)
        self._stop.listen()
        self._checkpoints = Checkpointer(
            store=self.store,
            prefix=f"{self.run_prefix}/checkpoints",
            cache=self.job_dir / "checkpoints",
            attempt=self.attempt,
            config=content_digest({"own_loop": dict(self.settings)}),
            fingerprint=self.data,
            grace_s=self._stop.grace_s,
        )
        self._progress = Progress(job_dir=self.job_dir, total=self.total_steps, epochs=1)
        self._account = StepAccount(job_dir=self.job_dir, resumed_step=0)

    def restore(self, into: dict[str, torch.Tensor]) -> int:
        """Fill tensors from the newest valid checkpoint of any attempt.

        Args:
            into: Tensors and DTensors by name, filled in place; give the live ones of the model and the optimizer.

        Returns:
            The step it was saved at, 0 where there is none.

        Raises:
            UserError: It belongs to other settings or other data, or holds other tensors than these.
        """
        check_tensors(into, where="restore")
        found = self._checkpoints.newest()
        if found is not None:
            check_fits(found, into)
            self._checkpoints.load(found, into)
            self._saved = found.step
        self._step = self._account.resumed_step = 0 if found is None else found.step
        self._record()
        return self._step

    def save(self, tensors: Mapping[str, torch.Tensor], *, step: int, wait: bool = False) -> None:
        """Copy the tensors and commit them in the background.

        A step is saved once: a second call for it writes nothing, and only waits where it is asked to.

        Args:
            tensors: Tensors and DTensors by name: everything that the loop needs to go on.
            step: Steps done.
            wait: Whether to come back only after the commit, as before an end.

        Raises:
            UserError: There is something else than tensors, or the step is no number or before the last one saved.
            StoreError: The commit failed; without ``wait`` that shows at a later call.
        """
        check_tensors(tensors, where="save")
        check_count(step, where="save(step=)", least=max(self._saved, 0))
        if step != self._saved:
            self._checkpoints.save(tensors, step=step)
            self._saved = step
        if wait:
            self._checkpoints.settle()
            self._record()

    def should_stop(self) -> bool:
        """Whether any worker has a notice: save, then leave. All workers get the same answer."""
        if not distributed.is_initialized() or distributed.get_world_size() == 1:
            return self._stop.raised()
        flag = torch.tensor(float(self._stop.raised()), device="cuda" if distributed.get_backend() == "nccl" else "cpu")
        distributed.all_reduce(flag, op=distributed.ReduceOp.MAX)
        return bool(flag.item())

    def report(self, *, step: int, loss: SupportsFloat, seconds: float = 0.0, samples: int = 0) -> None:
        """Tell of a step that was executed: the account survives a kill, the progress goes out twice a second.

        Args:
            step: Steps done.
            loss: Loss of the step: a number, or a tensor of one element.
            seconds: Seconds that it took.
            samples: Samples that it consumed.

        Raises:
            UserError: One of them is no number.
        """
        check_count(step, where="report(step=)", least=0)
        check_count(samples, where="report(samples=)", least=0)
        self._step = step
        self._account.useful_s += plain_number(seconds, where="report(seconds=)")
        self._account.samples += samples
        self._record()
        if step == self.total_steps or self._progress.due():
            shown = plain_number(loss, where="report(loss=)")
            self._progress.show(step=step, epoch=1, loss=shown, samples_per_s=self._account.samples_per_s)

    def _record(self) -> None:
        self._account.record(last_executed_step=self._step, committed_step=self._checkpoints.last_step)
