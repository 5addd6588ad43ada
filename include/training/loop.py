"""The training loop: step, account, notice, checkpoint, validate."""

from __future__ import annotations

import logging
import math
import time
from dataclasses import dataclass

import torch

from include.config.workload import TrainingSection
from include.core.errors import UserError
from include.parallel.layout import Execution
from include.parallel.step import forward_backward
from include.training.batches import Examples
from include.training.checkpoint import Checkpointer
from include.training.data_position import DataOrder
from include.training.optimizer import learning_rate, set_learning_rate
from include.training.progress import Progress, StepAccount
from include.training.state import TrainState
from include.training.stop import StopFlag

_log = logging.getLogger("plimsoll.train")
_VALIDATION_BATCH = 1024


@dataclass(slots=True, kw_only=True)
class Trainer:
    """One attempt of a training.

    Attributes:
        state: Fresh or restored state.
        training: The workload's training section.
        execution: How a step runs.
        train: Training split.
        validation: Validation split.
        order: Order of the training rows.
        checkpoints: Where state is saved.
        every: Checkpoint interval in steps.
        stop: The notice.
        progress: What people see.
        account: Which steps were executed.
        accuracy: Last validation accuracy of this attempt, None before the first.
    """

    state: TrainState
    training: TrainingSection
    execution: Execution
    train: Examples
    validation: Examples
    order: DataOrder
    checkpoints: Checkpointer
    every: int
    stop: StopFlag
    progress: Progress
    account: StepAccount
    accuracy: float | None = None

    @property
    def total_steps(self) -> int:
        """Optimizer steps of the whole training."""
        return self.training.epochs * self.order.steps_per_epoch

    @property
    def train_loss(self) -> float:
        """Mean loss per row over the epoch that the state stands at the end of."""
        return self.state.epoch_loss / self.order.rows

    def run(self) -> bool:
        """Train to the end, or to the notice.

        Returns:
            True at the end, False when a notice ended it; the state is committed in both cases.

        Raises:
            UserError: The loss is not finite, or memory does not suffice.
        """
        while self.state.step < self.total_steps:
            self._step()
            stopping = self.stop.agreed()
            finished = self.state.step == self.total_steps
            if stopping or finished or self.state.step % self.every == 0:
                self.checkpoints.save(self.state.to_tensors(), step=self.state.step)
                if stopping or finished:
                    self.checkpoints.settle()
                self._account()
            if stopping and not finished:
                return False
            if self.order.locate(self.state.offset)[1] == 0:
                self._validate()
        if self.accuracy is None:
            self._validate()
        return True

    def _step(self) -> None:
        state, began = self.state, time.monotonic()
        epoch, row = self.order.locate(state.offset)
        batch = self.order.batch_at(state.offset)
        set_learning_rate(state.optimizer, learning_rate(self.training, step=state.step, total_steps=self.total_steps))
        state.model.train()
        loss = self._descend(batch)
        state.epoch_loss = (state.epoch_loss if row else 0.0) + loss * len(batch)
        state.offset += len(batch)
        state.step += 1
        self.account.useful_s += time.monotonic() - began
        self.account.samples += len(batch)
        self._account()
        _log.info("step %d executed, epoch %d, loss %.6f", state.step, epoch + 1, loss)
        self.progress.show(step=state.step, epoch=epoch + 1, loss=loss, samples_per_s=self.account.samples_per_s)

    def _descend(self, batch: torch.Tensor) -> float:
        inputs, labels = self.train.inputs, self.train.labels
        rows = batch.to(inputs.device)
        try:
            loss = forward_backward(
                self.state.model, inputs=inputs[rows], labels=labels[rows], execution=self.execution
            ).item()
            self._refuse_non_finite(loss)
            self.state.optimizer.step()
        except (torch.OutOfMemoryError, MemoryError) as error:
            raise self._out_of_memory(error) from error
        except RuntimeError as error:
            # The CPU allocator has no exception class of its own.
            if "can't allocate memory" not in str(error):
                raise
            raise self._out_of_memory(error) from error
        self.state.optimizer.zero_grad(set_to_none=True)
        return loss

    def _refuse_non_finite(self, loss: float) -> None:
        if not math.isfinite(loss):
            raise UserError(
                "the training diverged: the loss is not finite",
                where=f"step {self.state.step + 1} of {self.total_steps}",
                found=f"loss {loss}, learning rate {self.state.optimizer.param_groups[0]['lr']:.3g}",
                todo=f"lower training.lr (now {self.training.lr}), use fp32 precision, or look for wild values in "
                f"the numeric columns; the last committed step is {self.checkpoints.last_step}",
            )

    def _out_of_memory(self, error: BaseException) -> UserError:
        return UserError(
            "out of memory",
            where=f"step {self.state.step + 1} of {self.total_steps}",
            found=f"micro-batch {self.execution.micro_batch} in {self.execution.precision}: {error}",
            todo="use a smaller micro-batch (same batch, more accumulation), bf16, or an offer with more memory",
        )

    def _account(self) -> None:
        self.account.record(last_executed_step=self.state.step, committed_step=self.checkpoints.last_step)

    def _validate(self) -> None:
        self.accuracy = accuracy(self.state.model, self.validation)
        self.progress.keep(validation_accuracy=round(self.accuracy, 4))
        _log.info("step %d validation accuracy %.4f", self.state.step, self.accuracy)


def accuracy(model: torch.nn.Module, examples: Examples) -> float:
    """Share of rows whose largest logit is at their label. Draws from no random generator."""
    model.eval()
    hits = 0
    with torch.no_grad():
        for start in range(0, len(examples.labels), _VALIDATION_BATCH):
            part = slice(start, start + _VALIDATION_BATCH)
            hits += int((model(examples.inputs[part]).argmax(dim=1) == examples.labels[part]).sum())
    return hits / len(examples.labels)
