"""One attempt of a training inside its worker: assemble, resume, train, export."""

from __future__ import annotations

import logging
import statistics

import torch

from include.config.job_messages import TrainResult
from include.core.contracts.dataset import DatasetManifest
from include.core.errors import UserError
from include.core.store import ObjectStore
from include.data.manifest import read_manifest
from include.parallel.layout import apply_layout, single_worker_layout
from include.training.checkpoint import Checkpointer
from include.training.commit import config_hash
from include.training.data_position import DataOrder
from include.training.examples import load_examples
from include.training.loop import Trainer
from include.training.model_factory import build_model
from include.training.optimizer import build_optimizer
from include.training.outcome import WorkerOrder, WorkerOutcome
from include.training.progress import Progress, StepAccount
from include.training.state import TrainState
from include.training.stop import StopFlag
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
    _make_exact(order.settings.torch_threads)
    torch.distributed.init_process_group("gloo")
    store = ObjectStore(order.settings.store)
    trainer = _assemble(order, store=store, stop=stop)
    _resume(trainer)
    if not trainer.run():
        return WorkerOutcome(
            status="preempted", step=trainer.checkpoints.last_step, checkpoint_uri=trainer.checkpoints.last_uri
        )
    return WorkerOutcome(
        status="done",
        step=trainer.state.step,
        checkpoint_uri=trainer.checkpoints.last_uri,
        result=_result(trainer, store=store, run_prefix=order.request.run_prefix),
    )


def _make_exact(threads: int) -> None:
    # More threads sum in another order; the same number on the same machine type is still exact.
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)  # noqa: FBT003 - torch takes it by position only


def _assemble(order: WorkerOrder, *, store: ObjectStore, stop: StopFlag) -> Trainer:
    request, training = order.request, order.request.workload.training
    if request.dataset is None:
        raise UserError("the request names no dataset", where="request.dataset", todo="run prepare first")
    execution = apply_layout(
        request.layout or single_worker_layout(batch_size=training.batch_size, precision=training.precision),
        batch_size=training.batch_size,
    )
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    manifest = read_manifest(store, request.dataset.uri)
    state = _fresh_state(order, manifest=manifest, device=device)
    train_rows = load_examples(store, manifest, "train", device=device)
    data_order = DataOrder(rows=len(train_rows.labels), batch_size=training.batch_size, seed=training.seed)
    return Trainer(
        state=state,
        training=training,
        execution=execution,
        train=train_rows,
        validation=load_examples(store, manifest, "validation", device=device),
        order=data_order,
        checkpoints=Checkpointer(
            store=store,
            prefix=f"{request.run_prefix}/checkpoints",
            cache=order.job_dir / "checkpoints",
            attempt=request.attempt,
            config=config_hash(request.workload),
            fingerprint=manifest.fingerprint,
        ),
        every=request.checkpoint_every_steps or training.checkpoint_every_steps or data_order.steps_per_epoch,
        stop=stop,
        progress=Progress(
            job_dir=order.job_dir, total=training.epochs * data_order.steps_per_epoch, epochs=training.epochs
        ),
        account=StepAccount(job_dir=order.job_dir, resumed_step=0),
    )


def _fresh_state(order: WorkerOrder, *, manifest: DatasetManifest, device: torch.device) -> TrainState:
    workload = order.request.workload
    torch.manual_seed(workload.training.seed)
    model = build_model(workload.model, input_shape=manifest.input_shape, classes=len(manifest.classes)).to(device)
    return TrainState(model=model, optimizer=build_optimizer(model, workload.training))


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
    assert trainer.accuracy is not None
    return TrainResult(
        checkpoint_uri=trainer.checkpoints.last_uri,
        weights_uri=uri,
        weights_digest=digest,
        steps=trainer.total_steps,
        resumed_step=trainer.account.resumed_step,
        skipped=tuple(trainer.checkpoints.skipped),
        metrics={"train_loss": trainer.train_loss, "validation_accuracy": trainer.accuracy},
        samples_per_s=trainer.account.samples_per_s,
        checkpoint_save_s=statistics.median(saves) if saves else None,
        useful_s=trainer.account.useful_s,
    )
