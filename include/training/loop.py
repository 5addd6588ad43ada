"""The training loop: batch, step, count, notice, checkpoint, validate.

What happens at every step is kept to a few microseconds; what costs more happens at boundaries (a checkpoint, the end
of an epoch) or a few times per second.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch

from include.config.training_section import TrainingSection
from include.core.errors import StoreError, UserError
from include.parallel.gradients import clip_gradients
from include.parallel.layout import Execution
from include.parallel.spread import Spread
from include.parallel.step import forward_backward
from include.training.ballots import Ballots, Count
from include.training.batches import Batch, BatchSource, moved_to
from include.training.checkpoint import Checkpointer, RivalError
from include.training.drill_hold import DrillHold
from include.training.interval import steps_between
from include.training.memory import raise_if_out_of_memory
from include.training.optimizer import learning_rate, set_learning_rate
from include.training.progress import Progress, StepAccount
from include.training.state import TrainState
from include.training.stop import StopFlag
from include.training.tasks.task import Task
from include.training.telemetry.step_timer import StepTimer
from include.training.validation import measure

_log = logging.getLogger("plimsoll.train")
_SHOW_EVERY_S = 0.5


@dataclass(slots=True, kw_only=True)
class Trainer:
    """One attempt of a training.

    Attributes:
        state: Fresh or restored state.
        training: The workload's training section.
        task: Loss and metric.
        execution: How a step runs.
        spread: The model as this worker runs it.
        device: Where it runs.
        source: Training data.
        validation: Validation data.
        checkpoints: Where state is saved.
        every: Checkpoint interval in steps.
        interruptions_per_h: From which the interval follows after each save; None keeps ``every``.
        stop: The notice.
        progress: What people see.
        account: Which steps were executed.
        timer: Where the time of a step goes.
        hold: Where an interruption drill wants it to wait for the notice; None outside of drills.
        metric: Last validation metric of this attempt, None before the first.
    """

    state: TrainState
    training: TrainingSection
    task: Task
    execution: Execution
    spread: Spread
    device: torch.device
    source: BatchSource
    validation: BatchSource
    checkpoints: Checkpointer
    every: int
    interruptions_per_h: float | None = None
    stop: StopFlag
    progress: Progress
    account: StepAccount
    timer: StepTimer
    hold: DrillHold | None = None
    metric: float | None = None
    _ballots: Ballots = field(init=False)
    _learned: list[torch.nn.Parameter] = field(init=False)
    _forward: Callable[..., torch.Tensor] = field(init=False)
    _stopping: bool = False
    _save_soon: bool = False
    _save_at: int = 0
    _longest: int = 0
    _show_at: float = float("-inf")
    _last_loss: float = 0.0

    def __post_init__(self) -> None:
        place = self.spread.place
        self._ballots = Ballots(device=self.device, world=place.world, copies=place.world // place.data_parallel)
        # Ranks are compared by their forward passes: the exchange of gradients makes all of them equally slow after it.
        alone = place.world == 1
        self._forward = self.spread.forward if alone else self.timer.timing_forward(self.spread.forward)
        self._learned = [parameter for parameter in self.spread.model.parameters() if parameter.requires_grad]

    @property
    def steps_per_epoch(self) -> int:
        """Optimizer steps per pass over the data."""
        return self.source.steps_per_epoch(self.training.batch_size)

    @property
    def total_steps(self) -> int:
        """Optimizer steps of the whole training."""
        return self.training.total_steps(self.steps_per_epoch)

    @property
    def train_loss(self) -> float:
        """Mean loss per row over the last epoch, which may not be finished."""
        return self.state.epoch_loss / (self.state.offset % self.source.rows or self.source.rows)

    def run(self) -> bool:
        """Train to the end, or to the notice.

        Returns:
            True at the end, with the state committed; False after a notice, committed if the store took it in time.

        Raises:
            UserError: The loss is not finite, or memory does not suffice.
            StoreError: The last state cannot be committed, or another process runs the same attempt.
        """
        state, total, rows = self.state, self.total_steps, self.source.rows
        batches = self._open()
        state.model.train()
        # Once per epoch at the least, or as seldom as was asked for.
        self._save_at, self._longest = (
            (state.step // self.every + 1) * self.every,
            max(self.every, self.steps_per_epoch),
        )
        while state.step < total:
            self._step(batches, total)
            self._hold_for_notice(total)
            finished, epoch_ends = state.step == total, state.offset % rows == 0
            due = self._save_soon or state.step >= self._save_at
            if finished or epoch_ends or self._stopping or due:
                self._count_rest()
                if epoch_ends:
                    self._say_step()
                if epoch_ends and not self._stopping:
                    self._validate()
            if self._stopping and not finished:
                self._say_step()
                self._leave()
                return False
            self._save_soon = self._save_soon and not due
            if finished or (due and not self._left_out()):
                try:
                    self._save(measured=epoch_ends)
                except StoreError as error:  # the save before outlasts what a notice leaves
                    self._give_up(error)
                    return False
        try:
            self._finish()
        except StoreError as error:
            if not self.stop.raised():
                raise
            self._give_up(error)
            return False
        return True

    def _open(self) -> Iterator[Batch]:
        place = self.spread.place
        return self.source.batches(
            offset=self.state.offset,
            batch_size=self.training.batch_size,
            rank=place.data_rank,
            world=place.data_parallel,
        )

    def _step(self, batches: Iterator[Batch], total: int) -> None:
        state, account, timer = self.state, self.account, self.timer
        began = timer.clock()
        inputs, targets, rows = next(batches)
        computing_since = got = timer.clock()
        if inputs.device != self.device:
            with timer.copying():
                inputs, targets = moved_to(inputs, self.device), moved_to(targets, self.device)
            computing_since = timer.clock()
        set_learning_rate(state.optimizer, learning_rate(self.training, step=state.step, total_steps=total))
        self._descend(inputs, targets, rows)
        state.offset += rows
        state.step += 1
        now = timer.end_step(samples=len(targets), waited_s=got - began, computing_since=computing_since)
        account.useful_s += now - began
        account.samples += rows
        account.record(last_executed_step=state.step, committed_step=self.checkpoints.last_step)
        if now >= self._show_at:
            self._show_at = now + _SHOW_EVERY_S
            self._show()

    def _hold_for_notice(self, total: int) -> None:
        """In a drill: show how far it is and wait. The step after it is the one that hears of the notice."""
        if self.hold is not None and self.state.step < total and self.hold.due(self.progress.fraction(self.state.step)):
            self._show()
            with self.timer.evaluating():  # no part of any step
                self.hold.wait(self.stop)

    def _descend(self, inputs: torch.Tensor, targets: torch.Tensor, rows: int) -> None:
        state, scaler = self.state, self.state.scaler
        try:
            loss = forward_backward(
                self._forward,
                inputs=inputs,
                labels=targets,
                execution=self.execution,
                loss_sum=self.task.loss_sum,
                rows_global=rows,
                syncing=self.spread.syncing,
                scale=None if scaler is None else scaler.scale,
            )
            first = state.offset % self.source.rows == 0
            stop, save = self.stop.raised(), self.stop.save_wanted()
            count = self._ballots.cast(loss, step=state.step + 1, rows=rows, first=first, stop=stop, save=save)
            if count is not None:
                self._count(count)
            self._update()
        except (MemoryError, RuntimeError) as error:
            step = f"micro-batch {self.execution.micro_batch} in {self.execution.precision}"
            raise_if_out_of_memory(error, where=f"step {state.step + 1} of {self.total_steps}", step=step)
            raise

    def _update(self) -> None:
        optimizer, scaler = self.state.optimizer, self.state.scaler
        if self.training.clip_grad_norm is not None:
            if scaler is not None:
                scaler.unscale_(optimizer)
            clip_gradients(self._learned, self.training.clip_grad_norm)
        if scaler is None:
            optimizer.step()
        else:
            scaler.step(optimizer)
            scaler.update()
        optimizer.zero_grad(set_to_none=True)

    def _count(self, count: Count) -> None:
        if not count.finite:
            raise UserError(
                "the training diverged: the loss is not finite",
                where=f"step {count.step} of {self.total_steps}",
                found=f"loss {count.loss}, learning rate {self.state.optimizer.param_groups[0]['lr']:.3g}",
                todo=f"lower training.lr (now {self.training.lr}), use fp32 precision, or look for wild values in "
                f"the numeric columns; the last committed step is {self.checkpoints.last_step}",
            )
        self.state.epoch_loss = (0.0 if count.first else self.state.epoch_loss) + count.loss * count.rows
        self._last_loss = count.loss
        self._stopping = self._stopping or count.stop
        self._save_soon = self._save_soon or count.save

    def _count_rest(self) -> None:
        with self.timer.syncing():
            for count in self._ballots.rest():
                self._count(count)

    def _save(self, *, measured: bool) -> None:
        self.spread.align_buffers()
        metric = self.metric if measured and not self._stopping else None
        if metric is not None and not self.task.larger_is_better:
            metric = -metric
        with self.timer.saving():
            self.checkpoints.save(self.state.to_tensors(), step=self.state.step, metric=metric)
        self._save_at = self._next_save()

    def _left_out(self) -> bool:
        """Whether the save that is due is left out, because the one before still runs; all workers answer alike.

        Steps would wait for the disk or the network. What a kill costs is the interval that comes out: a multiple.
        """
        if not self.spread.of_the_first(int(self.checkpoints.busy)):
            return False
        if self.state.step >= self._save_at:
            self._save_at = self._save_at + self.every
        _log.info("step %d: no save, since the one before is still under way", self.state.step)
        return True

    def _next_save(self) -> int:
        """The step of the next save; all workers come here at the same step and leave with the same answer."""
        step, saves, steps = self.state.step, self.checkpoints.save_seconds, self.timer.steps
        if self.interruptions_per_h is None:
            return (step // self.every + 1) * self.every
        if saves and steps:
            best = steps_between(saves[-1], self.account.useful_s / steps, self.interruptions_per_h)
            self.every = self._longest if best is None else min(best, self._longest)
        return step + self.spread.of_the_first(self.every)

    def _leave(self) -> None:
        """Save for the notice. One that fails costs what was done since the last commit, and nothing beside it."""
        try:
            self._save(measured=False)
            self._settle()
        except StoreError as error:
            self._give_up(error)

    def _give_up(self, error: StoreError) -> None:
        if isinstance(error, RivalError):
            raise error
        self.account.record(last_executed_step=self.state.step, committed_step=self.checkpoints.last_step)
        _log.error("%s; the next attempt goes on from step %d", error, self.checkpoints.last_step)

    def _settle(self) -> None:
        with self.timer.saving():
            self.checkpoints.settle()
        self.account.record(last_executed_step=self.state.step, committed_step=self.checkpoints.last_step)

    def _finish(self) -> None:
        self._settle()
        if self.metric is None:
            self._validate()
        self._show()

    def _show(self) -> None:
        self.progress.show(
            step=self.state.step,
            epoch=max(1, -(-self.state.offset // self.source.rows)),
            loss=self._last_loss,
            samples_per_s=self.account.samples_per_s,
            shares=self.timer.shares(),
        )

    def _say_step(self) -> None:
        epoch = -(-self.state.offset // self.source.rows)
        _log.info("step %d executed, epoch %d, loss %.6f", self.state.step, epoch, self._last_loss)

    def _validate(self) -> None:
        self.spread.align_buffers()
        with self.timer.evaluating():
            self.metric = measure(self.spread, self.task, self.validation, device=self.device)
        self.state.model.train()
        name = self.task.metric_name
        if self.metric is None:
            _log.warning("step %d: validation %s is no finite number, so it is left out", self.state.step, name)
            return
        self.progress.keep(**{f"validation_{name}": round(self.metric, 4)})
        _log.info("step %d validation %s %.4f", self.state.step, name, self.metric)
