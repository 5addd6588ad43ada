"""Where a training's rows come from: the prepared dataset of the run, or a function that the workload names."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

import torch

from include.config.job_messages import JobRequest
from include.config.settings import Settings
from include.config.training_section import ALLOWED_TASK_PACKAGES, TrainingSection
from include.core.errors import DataError, UserError
from include.core.store import ObjectStore
from include.data.location import uri_files
from include.data.manifest import read_manifest
from include.data.sources import roots_of
from include.training.batches import BatchSource, Examples, MemorySource
from include.training.commit import STREAMED
from include.training.imports import load_callable
from include.training.stream_source import StreamSource, open_source
from include.training.user_code import user_code

# Tasks whose labels are numbers of classes.
CLASSIFYING = ("classification", "text-classification")


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
        UserError: The request names no dataset, or the workload's function is not there or fails.
        DataError: A split has no rows, or a label is no class.
    """
    training = request.workload.training
    if training.data is not None:
        factory = load_callable(training.data, packages=ALLOWED_TASK_PACKAGES, where="training.data")
        made = _call(factory, settings, training)
        _refuse_unusable(made, training)
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
        # Rows come in another order from memory than from a stream: an offset means something in one of them alone.
        fingerprint=f"{manifest.fingerprint}{STREAMED}" if isinstance(train, StreamSource) else manifest.fingerprint,
    )


def _call(factory: Callable[..., object], settings: Settings, training: TrainingSection) -> TaskData:
    try:
        inspect.signature(factory).bind(settings, seed=training.seed, **training.data_arguments)
    except TypeError as error:
        raise UserError("wrong arguments", where="training.data_arguments", found=str(error)) from error
    with user_code("the data function", where="training.data"):
        made = factory(settings, seed=training.seed, **training.data_arguments)
    if not isinstance(made, TaskData):
        raise UserError(
            "the data function made no rows", where="training.data", found=type(made).__name__, allowed="TaskData"
        )
    return made


def _refuse_unusable(made: TaskData, training: TrainingSection) -> None:
    """Refuse a split without rows, and labels that are no classes."""
    for split, source in (("training", made.train), ("validation", made.validation)):
        if source.rows < 1:
            raise DataError(f"the {split} split has no rows", where="training.data", found="0", allowed="1 or more")
        if training.task not in CLASSIFYING or training.loss:
            continue
        labels = source.labels if isinstance(source, MemorySource) else None
        if labels is not None and not labels.is_floating_point() and not _within(labels, made.classes):
            raise DataError(
                f"a label of the {split} split is no class",
                where="training.data",
                found=f"labels from {int(labels.min())} to {int(labels.max())}",
                allowed=f"0 to {made.classes - 1}",
            )


def _within(labels: torch.Tensor, classes: int) -> bool:
    return int(labels.min()) >= 0 and int(labels.max()) < classes


def read_file(settings: Settings, uri: str) -> bytes:
    """Content of one file, local ones below the data roots alone.

    Raises:
        DataError: It is no URI, is not there, lies elsewhere, or is a folder of several.
    """
    if not isinstance(uri, str) or not uri.strip() or "\0" in uri:
        raise DataError("no URI of a file", where="training.data_arguments.uri", found=repr(uri))
    files = uri_files(uri, roots=roots_of(data_roots=settings.data_roots, store_url=settings.store))
    if len(files) != 1:
        raise DataError("one file is needed", where=uri, found=f"{len(files)} files")
    return files[0].data


def check_share(value: object) -> None:
    """Check the share of rows that is not trained on.

    Raises:
        DataError: It is no number between 0 and 1.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        where = "training.data_arguments.validation"
        raise DataError("no share of the rows", where=where, found=repr(value), allowed="a number between 0 and 1")


def check_length(value: object) -> None:
    """Check the length of a row of text.

    Raises:
        DataError: It is no whole number from 1 on.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        where = "training.data_arguments.length"
        raise DataError("no length of a row", where=where, found=repr(value), allowed="bytes, 1 or more")


def split_rows(
    inputs: torch.Tensor, targets: torch.Tensor, *, seed: int, validation: float, where: str
) -> tuple[Examples, Examples]:
    """Training and validation rows, drawn by a generator of their own.

    Raises:
        DataError: A part has no rows.
    """
    order = torch.randperm(len(targets), generator=torch.Generator().manual_seed(seed))
    held = int(len(targets) * validation)
    if not 0 < held < len(targets):
        raise DataError("a part has no rows", where=where, found=f"{held} of {len(targets)} rows for validation")
    parts = order[held:], order[:held]
    train, held_out = (Examples(inputs=inputs[part], labels=targets[part]) for part in parts)
    return train, held_out
