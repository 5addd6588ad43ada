"""One attempt of a training inside its worker: assemble, resume, train, export."""

from __future__ import annotations

import logging
import os
import statistics
from contextlib import AbstractContextManager

import torch

from include.config.job_messages import TrainResult
from include.config.training_section import TrainingSection
from include.core.contracts.plan import Layout
from include.core.store import ObjectStore
from include.parallel.layout import apply_layout, single_worker_layout
from include.parallel.mesh import resized, take_place
from include.parallel.spread import Spread, spread_model
from include.training.blob_content import refuse_unstorable
from include.training.checkpoint import Checkpointer
from include.training.commit import config_hash
from include.training.drill_hold import DrillHold
from include.training.local_files import folder_of
from include.training.loop import Trainer
from include.training.model_factory import build_model, freeze
from include.training.optimizer import build_optimizer, refuse_endless_warmup
from include.training.outcome import WorkerOrder, WorkerOutcome
from include.training.progress import Progress, StepAccount
from include.training.retention import RetentionPolicy
from include.training.state import TrainState
from include.training.stop import StopFlag
from include.training.stream_source import StreamSource
from include.training.tasks.data import TaskData, open_data
from include.training.tasks.task import Task, build_task
from include.training.telemetry.recording import Recorder, recording
from include.training.telemetry.step_timer import StepTimer
from include.training.trial import needs_trial, try_task
from include.training.weights import export_weights

_log = logging.getLogger("plimsoll.train")


def train(order: WorkerOrder, *, stop: StopFlag) -> WorkerOutcome:
    """Run one attempt from the newest valid checkpoint, or from the start.

    Args:
        order: Request, settings and scratch folder.
        stop: The notice, already listening.

    Returns:
        ``done`` with the result, or ``preempted`` with the committed checkpoint.

    Raises:
        UserError: The request, the layout or an earlier checkpoint does not fit, or the training cannot go on.
    """
    make_exact(order.settings.torch_threads)
    device = _join()
    store = ObjectStore(order.settings.store)
    trainer = _assemble(order, store=store, stop=stop, device=device)
    _resume(trainer)
    with _recording(order, trainer):
        done = trainer.run()
    trainer.account.close()
    if not done:
        return WorkerOutcome(
            status="preempted", step=trainer.checkpoints.last_step, checkpoint_uri=trainer.checkpoints.last_uri
        )
    return WorkerOutcome(
        status="done",
        step=trainer.state.step,
        checkpoint_uri=trainer.checkpoints.last_uri,
        result=_result(trainer, store=store, run_prefix=order.request.run_prefix),
    )


def _recording(order: WorkerOrder, trainer: Trainer) -> AbstractContextManager[Recorder]:
    asked = order.request.inputs.get("profile_steps", 0)
    return recording(
        trainer.timer,
        folder=folder_of(order.job_dir, int(os.environ.get("LOCAL_RANK", "0"))),
        device=trainer.device,
        rank=torch.distributed.get_rank(),
        world=torch.distributed.get_world_size(),
        dcgm_url=order.settings.dcgm_url,
        profile_steps=max(asked, 0) if isinstance(asked, int) else 0,
        loader_queue=getattr(trainer.source, "queue_depth", None),  # only streams have a queue
    )


def make_exact(threads: int) -> None:
    """Make results repeatable. More threads sum in another order; the same number on the same machine type is exact."""
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)  # noqa: FBT003 - torch takes it by position only
    # It would write NaN into all memory that is allocated; no operator here reads what it has not written.
    torch.utils.deterministic.fill_uninitialized_memory = False


def _join() -> torch.device:
    """Join the other workers and say where this one computes."""
    if not torch.cuda.is_available():
        torch.distributed.init_process_group("gloo")
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(device)
    torch.distributed.init_process_group("cpu:gloo,cuda:nccl", device_id=device)
    return device


def _assemble(order: WorkerOrder, *, store: ObjectStore, stop: StopFlag, device: torch.device) -> Trainer:
    request, training = order.request, order.request.workload.training
    layout = _layout(order)
    execution = apply_layout(layout, batch_size=training.batch_size)
    own_folder = folder_of(order.job_dir, int(os.environ.get("LOCAL_RANK", "0")))
    data = open_data(request, store=store, settings=order.settings, device=device)
    task = build_task(training)
    spread = _spread(order, layout=layout, data=data, task=task, device=device)
    refuse_unstorable(spread.model.state_dict().items())
    steps_per_epoch = data.train.steps_per_epoch(training.batch_size)
    total = training.total_steps(steps_per_epoch)
    refuse_endless_warmup(training, total_steps=total)
    optimizer = build_optimizer(spread.model, training, foreach=False if layout.tensor > 1 else None)
    scaler = torch.amp.GradScaler(device.type) if layout.precision == "fp16" else None
    return Trainer(
        state=TrainState(model=spread.model, optimizer=optimizer, scaler=scaler),
        training=training,
        task=task,
        execution=execution,
        spread=spread,
        device=device,
        source=data.train,
        validation=data.validation,
        checkpoints=Checkpointer(
            store=store,
            prefix=f"{request.run_prefix}/checkpoints",
            cache=order.job_dir / "checkpoints",
            attempt=request.attempt,
            config=config_hash(request.workload),
            fingerprint=data.fingerprint,
            retention=_retention(training),
            grace_s=stop.grace_s,
        ),
        every=request.checkpoint_every_steps or training.checkpoint_every_steps or steps_per_epoch,
        interruptions_per_h=request.interruptions_per_h,
        stop=stop,
        progress=Progress(job_dir=own_folder, total=total, epochs=training.total_epochs(steps_per_epoch)),
        account=StepAccount(job_dir=own_folder, resumed_step=0),
        timer=StepTimer(rank=torch.distributed.get_rank(), world=spread.place.world, gradient_bytes=_bytes_of(spread)),
        hold=DrillHold.of(order.job_dir),
    )


def _retention(training: TrainingSection) -> RetentionPolicy:
    keep = training.keep_checkpoints
    return RetentionPolicy(keep_last=keep.last, keep_best=keep.best, keep_every=keep.every_steps)


def _layout(order: WorkerOrder) -> Layout:
    """The planned layout, for the workers that are there: an elastic training changes its size.

    A training on several nodes that nobody planned has one worker on each.
    """
    training = order.request.workload.training
    layout = order.request.layout or single_worker_layout(batch_size=training.batch_size, precision=training.precision)
    planned = order.request.layout is not None or order.node is None
    if planned and order.request.rendezvous is None:
        return layout
    return resized(layout, world=torch.distributed.get_world_size(), batch_size=training.batch_size)


def _spread(order: WorkerOrder, *, layout: Layout, data: TaskData, task: Task, device: torch.device) -> Spread:
    workload = order.request.workload
    place = take_place(layout, device_type=device.type, world=torch.distributed.get_world_size())
    torch.manual_seed(workload.training.seed)
    model = build_model(workload.model, input_shape=data.input_shape, classes=data.classes)
    freeze(model, workload.training.freeze)
    if place.data_rank:
        # Workers with different rows drop different units; the first goes on as a single one would.
        torch.manual_seed(workload.training.seed + place.data_rank)
    model = model.to(device)
    if needs_trial(workload):
        try_task(model, task, data, workload=workload, device=device)
    return spread_model(
        model,
        layout,
        place,
        reduce_precision=workload.training.reduce_precision,
        compiled=workload.training.compile,
    )


def _bytes_of(spread: Spread) -> int:
    return sum(p.numel() * p.element_size() for p in spread.model.parameters() if p.requires_grad)


def _resume(trainer: Trainer) -> None:
    found = trainer.checkpoints.newest()
    if found is not None:
        targets = trainer.state.targets(found.names)
        trainer.checkpoints.load(found, targets)
        trainer.state.restore(targets)
    step = trainer.state.step
    trainer.account.resumed_step = step
    trainer.account.record(last_executed_step=step, committed_step=step)
    _log.info(
        "attempt %d starts at step %d of %d from %s; %d checkpoints skipped",
        trainer.checkpoints.attempt,
        step,
        trainer.total_steps,
        found.uri if found else "the start",
        len(trainer.checkpoints.skipped),
    )


def _result(trainer: Trainer, *, store: ObjectStore, run_prefix: str) -> TrainResult:
    uri, digest = export_weights(trainer.state.model, store=store, run_prefix=run_prefix)
    saves = trainer.checkpoints.save_seconds
    return TrainResult(
        checkpoint_uri=trainer.checkpoints.last_uri,
        weights_uri=uri,
        weights_digest=digest,
        steps=trainer.total_steps,
        resumed_step=trainer.account.resumed_step,
        skipped=tuple(trainer.checkpoints.skipped),
        metrics={
            "train_loss": trainer.train_loss,
            **({} if trainer.metric is None else {f"validation_{trainer.task.metric_name}": trainer.metric}),
            **_skipped(trainer),
        },
        samples_per_s=trainer.account.samples_per_s,
        checkpoint_save_s=statistics.median(saves) if saves else None,
        useful_s=trainer.account.useful_s,
    )


def _skipped(trainer: Trainer) -> dict[str, float]:
    """Training rows of shards that could not be read, where there were any: others of their block stood in for them."""
    source = trainer.source
    rows = source.skipped_rows if isinstance(source, StreamSource) else 0
    return {"skipped_rows": float(rows)} if rows else {}
