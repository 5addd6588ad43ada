"""Where a training's rows come from: the prepared dataset of the run, or a function that the workload names."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from include.config.job_messages import JobRequest
from include.config.settings import Settings
from include.config.training_section import ALLOWED_TASK_PACKAGES
from include.core.errors import UserError
from include.core.store import ObjectStore
from include.data.manifest import read_manifest
from include.training.batches import BatchSource
from include.training.imports import load_callable
from include.training.stream_source import open_source


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskData:
    """Rows of a training.

    Attributes:
        train: Training rows.
        validation: Validation rows.
        input_shape: Shape of one sample.
        classes: What the model factory is told: classes, outputs of a regression, or the vocabulary.
        fingerprint: Of the content; a checkpoint belongs to one.
    """

    train: BatchSource
    validation: BatchSource
    input_shape: tuple[int, ...]
    classes: int
    fingerprint: str


def open_data(request: JobRequest, *, store: ObjectStore, settings: Settings, device: torch.device) -> TaskData:
    """Open the data of a training.

    Raises:
        UserError: The request names no dataset, or the workload's function is not there.
        DataError: A split has no rows.
    """
    training = request.workload.training
    if training.data is not None:
        factory = load_callable(training.data, packages=ALLOWED_TASK_PACKAGES, where="training.data")
        made = factory(settings, seed=training.seed, **training.data_arguments)
        assert isinstance(made, TaskData)
        return made
    if request.dataset is None:
        raise UserError("the request names no dataset", where="request.dataset", todo="run prepare first")
    manifest = read_manifest(store, request.dataset.uri)
    train, validation = (
        open_source(store, manifest, split, seed=training.seed, settings=settings, device=device)
        for split in ("train", "validation")
    )
    return TaskData(
        train=train,
        validation=validation,
        input_shape=manifest.input_shape,
        classes=len(manifest.classes),
        fingerprint=manifest.fingerprint,
    )
