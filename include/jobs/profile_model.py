"""The part of job ``profile`` that runs the user's model factory: in a process with limits of its own."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from include.config.job_messages import JobRequest
from include.core.contracts.dataset import DatasetManifest
from include.core.errors import UserError
from include.core.json_codec import from_json, to_json
from include.jobs.profile_device import profile_on
from include.parallel.layout import apply_layout, single_worker_layout
from include.sizing.demand import Surroundings, estimate_demand, layout_of
from include.sizing.demand_data import data_size
from include.sizing.extrapolate import Repeats
from include.sizing.trace import StepShape, fake_model, faking
from include.training.model_factory import build_model, freeze
from include.training.tasks.task import build_task

_log = logging.getLogger("plimsoll.profile")
# A factory's module may name the argument that says how many equal blocks the model has.
DEPTH_CONSTANT = "REPEATED_BY"
# Shallower models are traced as a whole.
EXTRAPOLATED_FROM_DEPTH = 9
_ROWS = 2


def find_demand(order: dict[str, Any]) -> dict[str, Any]:
    """Demand of a request's model, and what its steps take on a GPU of this machine.

    Args:
        order: ``request``, ``manifest``, ``threads``, ``most_memory_bytes``, ``loader_samples_per_core_s``,
            ``dcgm_url``, ``folder``.

    Returns:
        ``demand``, and ``device``, which is None where there is no GPU.

    Raises:
        UserError: The model cannot be built, traced, or does not take the data.
    """
    request = JobRequest.model_validate(order["request"])
    manifest = from_json(DatasetManifest, order["manifest"])
    shape = step_shape(request, manifest)
    _check_model(shape, of_rows=request.workload.training.task == "causal-lm")
    demand = estimate_demand(
        shape,
        training=request.workload.training,
        data=data_size(manifest),
        surroundings=Surroundings(
            family=request.workload.model.factory,
            threads=order["threads"],
            most_memory_bytes=order["most_memory_bytes"],
            loader_samples_per_core_s=order["loader_samples_per_core_s"],
            repeats=_repeats(request, manifest),
        ),
    )
    return {"demand": to_json(demand), "device": _on_device(shape, order)}


def _on_device(shape: StepShape, order: dict[str, Any]) -> Any:  # noqa: ANN401 - JSON
    if not torch.cuda.is_available():
        return None
    device, folder = torch.device("cuda", 0), Path(order["folder"])
    try:
        return to_json(profile_on(device, shape, layout=layout_of(shape), folder=folder, dcgm_url=order["dcgm_url"]))
    except (
        RuntimeError
    ):  # a driver that fails, an operator without an exact kernel: the traced demand stands without it
        _log.exception("no steps could be measured on %s", torch.cuda.get_device_name(device))
        return None


def step_shape(request: JobRequest, manifest: DatasetManifest) -> StepShape:
    """One step of the request's training."""
    training = request.workload.training
    layout = request.layout or single_worker_layout(batch_size=training.batch_size, precision=training.precision)
    return StepShape(
        build=_builder(request, manifest),
        input_shape=manifest.input_shape,
        classes=len(manifest.classes),
        batch=training.batch_size,
        optimizer=training.optimizer,
        execution=apply_layout(layout, batch_size=training.batch_size),
        loss_sum=build_task(training).loss_sum,
        target_shape=manifest.input_shape if training.task == "causal-lm" else (),
    )


def _builder(request: JobRequest, manifest: DatasetManifest, **arguments: Any) -> Callable[[], nn.Module]:  # noqa: ANN401 - of a factory
    section = request.workload.model
    section = section.model_copy(update={"arguments": {**section.arguments, **arguments}})

    def build() -> nn.Module:
        model = build_model(section, input_shape=manifest.input_shape, classes=len(manifest.classes))
        if request.workload.training.freeze:
            freeze(model, request.workload.training.freeze)
        return model

    return build


def _repeats(request: JobRequest, manifest: DatasetManifest) -> Repeats | None:
    """Two shallow models in place of a deep one, where the factory's module names its depth."""
    section = request.workload.model
    name = getattr(sys.modules.get(section.factory.partition(":")[0]), DEPTH_CONSTANT, None)
    depth = section.arguments.get(name) if name else None
    if not isinstance(depth, int) or depth < EXTRAPOLATED_FROM_DEPTH:
        return None
    return Repeats(build=lambda blocks: _builder(request, manifest, **{str(name): blocks})(), depth=depth)


def _check_model(shape: StepShape, *, of_rows: bool) -> None:
    """Refuse a model that does not turn the data's rows into one logit per class, before anything is rented for it."""
    try:
        with faking(), torch.no_grad():
            model = fake_model(shape.build).eval()
            found = tuple(model(torch.zeros(_ROWS, *shape.input_shape)).shape)
    except UserError:
        raise
    except Exception as error:
        # A model may raise whatever it likes; it is the model that cannot be run.
        raise UserError(
            "the model does not take the data",
            where="model",
            found=f"{type(error).__name__}: {error} for rows of shape {shape.input_shape}"[:600],
            todo="choose another model, or set data.image_shape; what a model computes may not depend on values",
        ) from error
    allowed = (_ROWS, *(shape.input_shape if of_rows else ()), shape.classes)
    if found != allowed:
        raise UserError(
            "the model's output is not one logit per class",
            where="model",
            found=f"shape {found} for {_ROWS} rows",
            allowed=str(allowed),
        )
