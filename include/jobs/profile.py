"""Job ``profile``: what the training needs, found without a GPU and without training."""

from __future__ import annotations

import logging

import torch
from torch import nn

from include.config.job_messages import ProfileResult
from include.core.errors import UserError
from include.data.manifest import read_manifest
from include.jobs.context import JobContext
from include.parallel.layout import apply_layout, single_worker_layout
from include.sizing.demand import data_size, estimate_demand
from include.sizing.trace import StepShape
from include.training.model_factory import build_model

_log = logging.getLogger("plimsoll.profile")


def run(context: JobContext) -> ProfileResult:
    """Trace and measure one training step of the workload's model on the prepared data's shape.

    Raises:
        UserError: The request names no dataset, or the model cannot be built or does not take the data.
    """
    request, training = context.request, context.request.workload.training
    if request.dataset is None:
        raise UserError("the request names no dataset", where="request.dataset", todo="run prepare first")
    manifest = read_manifest(context.store, request.dataset.uri)
    classes = len(manifest.classes)

    def build() -> nn.Module:
        return build_model(request.workload.model, input_shape=manifest.input_shape, classes=classes)

    model = build()
    _check_model(model, input_shape=manifest.input_shape, classes=classes)
    context.progress(fraction=0.2, doing="tracing one step")
    layout = request.layout or single_worker_layout(batch_size=training.batch_size, precision=training.precision)
    size = data_size(manifest)
    shape = StepShape(
        build=build,
        input_shape=manifest.input_shape,
        classes=classes,
        batch=training.batch_size,
        optimizer=training.optimizer,
        execution=apply_layout(layout, batch_size=training.batch_size),
    )
    demand = estimate_demand(
        shape,
        training=training,
        data=size,
        threads=context.settings.torch_threads,
        parameters=sum(p.numel() for p in model.parameters() if p.requires_grad),
    )
    _log.info("demand: %s", demand)
    return ProfileResult(demand=demand)


def _check_model(model: nn.Module, *, input_shape: tuple[int, ...], classes: int) -> None:
    """Refuse a model that does not turn the data's rows into one logit per class, before anything is rented for it."""
    rows = 2
    try:
        with torch.no_grad():
            found = tuple(model.eval()(torch.zeros(rows, *input_shape)).shape)
    except RuntimeError as error:
        raise UserError(
            "the model does not take the data",
            where="model",
            found=f"{error} for rows of shape {input_shape}",
            todo="choose another model, or set data.image_shape",
        ) from error
    if found != (rows, classes):
        raise UserError(
            "the model's output is not one logit per class",
            where="model",
            found=f"shape {found} for {rows} rows",
            allowed=f"({rows}, {classes})",
        )
