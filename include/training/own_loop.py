"""For a training loop of one's own: save, restore, should_stop, report. What remains is the user's.

The loop keeps its framework and gets what makes capacity that goes away safe: checkpoints that are committed or do not
exist, the notice, and an account of steps that survives a kill. Every worker of a distributed training makes the same
calls in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import distributed

from include.core.ids import content_digest
from include.core.store import ObjectStore
from include.training.checkpoint import Checkpointer
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

    def __post_init__(self) -> None:
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
            UserError: It belongs to other settings or other data.
            StoreError: It lacks one of the tensors.
        """
        found = self._checkpoints.newest()
        if found is not None:
            self._checkpoints.load(found, into)
        self._step = self._account.resumed_step = 0 if found is None else found.step
        self._record()
        return self._step

    def save(self, tensors: Mapping[str, torch.Tensor], *, step: int, wait: bool = False) -> None:
        """Copy the tensors and commit them in the background.

        Args:
            tensors: Tensors and DTensors by name: everything that the loop needs to go on.
            step: Steps done.
            wait: Whether to come back only after the commit, as before an end.

        Raises:
            StoreError: The commit failed; without ``wait`` that shows at a later call.
        """
        self._checkpoints.save(tensors, step=step)
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

    def report(self, *, step: int, loss: float, seconds: float = 0.0, samples: int = 0) -> None:
        """Tell of a step that was executed: the account survives a kill, the progress goes out twice a second.

        Args:
            step: Steps done.
            loss: Loss of the step.
            seconds: Seconds that it took.
            samples: Samples that it consumed.
        """
        self._step = step
        self._account.useful_s += seconds
        self._account.samples += samples
        self._record()
        if step == self.total_steps or self._progress.due():
            self._progress.show(step=step, epoch=1, loss=loss, samples_per_s=self._account.samples_per_s)

    def _record(self) -> None:
        self._account.record(last_executed_step=self._step, committed_step=self._checkpoints.last_step)
