"""The candidate's files: ``<run prefix>/candidates/<recipe hash>/model.onnx`` and, written last, ``recipe.json``."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass

from include.compression.source import Source, library_versions
from include.core.contracts.recipe import Candidate, Recipe
from include.core.errors import StoreError
from include.core.json_codec import from_json, to_json
from include.core.store import ObjectStore

_log = logging.getLogger("plimsoll.compression")
FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtefactFolder:
    """Folder of one candidate.

    Attributes:
        store: The object store.
        prefix: Key prefix of the folder.
    """

    store: ObjectStore
    prefix: str

    @property
    def model_key(self) -> str:
        """Key of the model."""
        return f"{self.prefix}/model.onnx"

    @property
    def recipe_key(self) -> str:
        """Key of the commit document."""
        return f"{self.prefix}/recipe.json"

    def find(self) -> Candidate | None:
        """The committed candidate; None where there is none or its model file is damaged."""
        document = self.store.get_json(self.recipe_key)
        if document is None:
            return None
        candidate = from_json(Candidate, document["candidate"])
        model = self.store.get(self.model_key)
        if model is None or hashlib.sha256(model).hexdigest() != candidate.sha256:
            _log.warning("candidate %s is damaged and will be made again", self.prefix)
            return None
        return candidate

    def commit(self, model: bytes, *, recipe: Recipe, source: Source, parameters: int) -> Candidate:
        """Write the model, then the document that commits it.

        Args:
            model: The artefact.
            recipe: What made it.
            source: What it was made of.
            parameters: Parameters left in the float model.

        Returns:
            The candidate that holds: that of another attempt of this job where it was first.

        Raises:
            StoreError: Model and document do not fit each other, which only damage explains.
        """
        kept = model if self.store.create(self.model_key, model) else self._settle(model)
        candidate = Candidate(
            recipe=recipe.name,
            recipe_hash=source.recipe_hash(recipe),
            model_uri=self.store.uri(self.model_key),
            sha256=hashlib.sha256(kept).hexdigest(),
            size_bytes=len(kept),
            parameters=parameters,
        )
        self.store.create_json(self.recipe_key, _document(candidate, recipe, source))
        committed = self.find()
        if committed is None:
            raise StoreError(f"model and recipe.json do not fit each other | where: {self.prefix}")
        return committed

    def _settle(self, model: bytes) -> bytes:
        """Decide between a model that is there already and a new one; returns the one that stays.

        Writes are whole, so a model without a document is good: its writer died, or is about to commit it. A model
        that contradicts its document is damaged and is replaced.
        """
        there = self.store.get(self.model_key)
        if there is not None and (self.find() is not None or not self.store.exists(self.recipe_key)):
            return there
        self.store.delete(self.recipe_key)
        self.store.put(self.model_key, model)
        return model


def _document(candidate: Candidate, recipe: Recipe, source: Source) -> dict[str, object]:
    return {
        "format": FORMAT,
        "candidate": to_json(candidate),
        "recipe": to_json(recipe),
        "source": {
            "checkpoint_uri": source.checkpoint_uri,
            "weights_uri": source.weights_uri,
            "weights_digest": source.weights_digest,
            "model": source.workload.model.model_dump(mode="json"),
        },
        "dataset_fingerprint": source.manifest.fingerprint,
        "classes": list(source.manifest.classes),
        "libraries": library_versions(),
    }
