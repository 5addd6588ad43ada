"""Where a training's rows come from: the prepared dataset of the run, or a function that the workload names."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from include.config.job_messages import JobRequest
from include.config.settings import Settings
from include.config.training_section import ALLOWED_TASK_PACKAGES
from include.core.errors import DataError, UserError
from include.core.store import ObjectStore
from include.data.location import uri_files
from include.data.manifest import read_manifest
from include.data.sources import roots_of
from include.training.batches import BatchSource, Examples
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
        try:
            made = factory(settings, seed=training.seed, **training.data_arguments)
        except TypeError as error:
            raise UserError("wrong arguments", where="training.data_arguments", found=str(error)) from error
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


def read_file(settings: Settings, uri: str) -> bytes:
    """Content of one file, local ones below the data roots alone.

    Raises:
        DataError: It is not there, lies elsewhere, or is a folder of several.
    """
    files = uri_files(uri, roots=roots_of(data_roots=settings.data_roots, store_url=settings.store))
    if len(files) != 1:
        raise DataError("one file is needed", where=uri, found=f"{len(files)} files")
    return files[0].data


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
