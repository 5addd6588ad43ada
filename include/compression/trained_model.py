"""The part of a recipe that needs torch: weights to model, prune, distill, export. Imported only on a cache miss."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import safetensors
import safetensors.torch
import torch
from torch import nn

from include.compression.calibration import calibration_rows
from include.compression.distill import TrainingRows, distill
from include.compression.export import export
from include.compression.factorize import factorize
from include.compression.prefix_cache import CachedPrefix, PrefixCache, prefix_key
from include.compression.prune import count_parameters, prune
from include.compression.source import Source
from include.compression.stages import Stages
from include.core.errors import StoreError
from include.core.store import ObjectStore
from include.data.encoding import load_split
from include.training.model_factory import build_model
from include.training.weights import load_weights, weights_digest

Progress = Callable[[float, str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """A float ONNX model.

    Attributes:
        prefix: Its bytes with the number of parameters.
        cached_steps: How many of the steps before the export came from the cache.
    """

    prefix: CachedPrefix
    cached_steps: int


def load_trained(store: ObjectStore, source: Source) -> nn.Module:
    """The uncompressed model in evaluation mode.

    Raises:
        StoreError: The weights are missing, of another model, or not those that the training reported.
    """
    model = build_model(
        source.workload.model, input_shape=source.manifest.input_shape, classes=len(source.manifest.classes)
    )
    try:
        load_weights(model, store=store, uri=source.weights_uri)
    except FileNotFoundError as error:
        raise StoreError(f"weights are missing | where: {source.weights_uri}") from error
    except (RuntimeError, safetensors.SafetensorError) as error:
        raise StoreError(f"weights do not fit the model | where: {source.weights_uri} | found: {error}") from error
    found = weights_digest(model)
    if found != source.weights_digest:
        raise StoreError(
            f"weights are not those of the training | where: {source.weights_uri} | found: digest {found} | "
            f"is not {source.weights_digest}"
        )
    return model.eval()


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchStages:
    """Runs the stages up to and with the export.

    Attributes:
        store: The object store.
        source: Model and data.
        progress: Told the share of the work done and what is being done.
    """

    store: ObjectStore
    source: Source
    progress: Progress

    def export(self, stages: Stages) -> Exported:
        """Model of a recipe's prefix as ONNX, put into the cache.

        Raises:
            StoreError: The weights cannot be used.
            PlimsollError: The exported model answers differently.
        """
        x, y = load_split(self.store, self.source.manifest, "train")
        rows = TrainingRows(x=torch.from_numpy(np.ascontiguousarray(x)), y=torch.from_numpy(y))
        model, cached_steps = self._trained(stages, rows)
        self.progress(0.7, "export")
        payload = export(model, step=stages.export, example=rows.x[:8].clone())
        prefix = PrefixCache(store=self.store).commit(
            prefix_key(origin=self.source.origin(), steps=stages.exported),
            payload,
            suffix=".onnx",
            facts={"parameters": count_parameters(model)},
        )
        return Exported(prefix=prefix, cached_steps=cached_steps)

    def _trained(self, stages: Stages, rows: TrainingRows) -> tuple[nn.Module, int]:
        """Model after pruning and recovery, and how many of these steps were found in the cache."""
        teacher = load_trained(self.store, self.source)
        student = self._structure(teacher, stages, rows)
        if stages.distill is None:
            return student, 0
        cache = PrefixCache(store=self.store)
        key = prefix_key(origin=self.source.origin(), steps=stages.trained)
        found = cache.find(key)
        if found is not None:
            # Structure is cheap and exact, so only the recovered weights are cached: they fit it.
            student.load_state_dict(safetensors.torch.load(found.payload))
            return student.eval(), len(stages.trained)
        self._recover(student, teacher, rows, stages)
        payload = safetensors.torch.save({name: t.contiguous() for name, t in student.state_dict().items()})
        kept = cache.commit(key, payload, suffix=".safetensors", facts={"parameters": count_parameters(student)})
        student.load_state_dict(safetensors.torch.load(kept.payload))
        return student, 0

    def _structure(self, teacher: nn.Module, stages: Stages, rows: TrainingRows) -> nn.Module:
        """A copy of the model in the form that the recipe gives it, before any training; a function of its weights."""
        self.progress(0.1, "prune" if stages.prune else "factorize" if stages.factorize else "load")
        student = prune(teacher, step=stages.prune, example=rows.x) if stages.prune else copy.deepcopy(teacher)
        if stages.factorize is not None:
            seen = calibration_rows(rows.x.numpy(), wanted=stages.factorize.calibration_rows)
            student = factorize(student, step=stages.factorize, rows=torch.from_numpy(seen))
        return student

    def _recover(self, student: nn.Module, teacher: nn.Module, rows: TrainingRows, stages: Stages) -> None:
        step = stages.distill
        assert step is not None
        distill(
            student,
            teacher=teacher,
            rows=rows,
            step=step,
            seed=self.source.workload.training.seed,
            batch_size=self.source.workload.training.batch_size,
            on_epoch=lambda epoch, loss: self.progress(
                0.1 + 0.6 * epoch / step.epochs, f"distill epoch {epoch}/{step.epochs}, loss {loss:.4f}"
            ),
        )
