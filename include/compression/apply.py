"""Apply a recipe to a trained model.

torch is imported only when the exported prefix is not in the cache: a quantization variant of a known prefix then
costs a second instead of ten.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from include.compression.artefact import ArtefactFolder
from include.compression.prefix_cache import CachedPrefix, PrefixCache, prefix_key
from include.compression.source import Source
from include.compression.stages import Stages, stages
from include.core.contracts.recipe import Candidate, QuantizeStep, Recipe
from include.core.store import ObjectStore
from include.data.encoding import load_split

_log = logging.getLogger("plimsoll.compression")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """Where recipes are applied.

    Attributes:
        store: The object store.
        run_prefix: Store prefix of the run that the candidates belong to.
        scratch: Local folder for temporary files.
        progress: Told the share of the work done and what is being done.
    """

    store: ObjectStore
    run_prefix: str
    scratch: Path
    progress: Callable[[float, str], None]

    def apply(self, recipe: Recipe, source: Source) -> tuple[Candidate, int]:
        """Make the candidate of a recipe, or find it where an earlier attempt made it.

        Returns:
            The candidate and how many of its steps were found rather than done.

        Raises:
            UserError: The recipe's steps are in the wrong order, or do not suit the model.
            DataError: The training rows cannot be calibrated with.
            StoreError: The weights cannot be used.
        """
        parts = stages(recipe)
        folder = ArtefactFolder(store=self.store, prefix=f"{self.run_prefix}/candidates/{source.recipe_hash(recipe)}")
        made = folder.find()
        if made is not None:
            return made, len(recipe.steps)
        prefix, cached_steps = self._exported(parts, source)
        model = prefix.payload if parts.quantize is None else self._quantized(prefix, parts.quantize, source)
        candidate = folder.commit(model, recipe=recipe, source=source, parameters=prefix.facts["parameters"])
        _log.info("%s: %d bytes, %d of %d steps cached", recipe.name, len(model), cached_steps, len(recipe.steps))
        return candidate, cached_steps

    def _exported(self, parts: Stages, source: Source) -> tuple[CachedPrefix, int]:
        found = PrefixCache(store=self.store).find(prefix_key(origin=source.origin(), steps=parts.exported))
        if found is not None:
            return found, len(parts.exported)
        from include.compression.trained_model import TorchStages  # noqa: PLC0415 - torch costs seconds to import

        exported = TorchStages(store=self.store, source=source, progress=self.progress).export(parts)
        return exported.prefix, exported.cached_steps

    def _quantized(self, prefix: CachedPrefix, step: QuantizeStep, source: Source) -> bytes:
        from include.compression.quantize import quantize  # noqa: PLC0415 - float recipes do without onnxruntime

        self.progress(0.85, "quantize")
        train, _ = load_split(self.store, source.manifest, "train")
        return quantize(prefix.payload, step=step, train=train, scratch=self.scratch)
