"""What a recipe is applied to, and how the results are named."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from include.config.workload import Workload
from include.core.contracts.dataset import DatasetManifest
from include.core.contracts.recipe import Recipe
from include.core.ids import content_digest
from include.core.json_codec import to_json

# Everything that shapes the bytes of an artefact.
LIBRARIES = ("torch", "torch-pruning", "onnx", "onnxscript", "onnxruntime", "numpy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A trained model with the data it was trained on.

    Attributes:
        workload: Names the model factory, the seed and the batch size.
        manifest: The prepared dataset.
        weights_uri: Weights as safetensors, in the store.
        weights_digest: Digest over all weights by name.
        checkpoint_uri: The committed checkpoint that the weights came from.
    """

    workload: Workload
    manifest: DatasetManifest
    weights_uri: str
    weights_digest: str
    checkpoint_uri: str

    def origin(self) -> dict[str, Any]:
        """What shapes a cached prefix beside its steps."""
        return {
            "weights": self.weights_digest,
            "dataset": self.manifest.fingerprint,
            "model": self.workload.model.model_dump(mode="json"),
            "seed": self.workload.training.seed,
            "batch_size": self.workload.training.batch_size,
            "libraries": library_versions(),
        }

    def recipe_hash(self, recipe: Recipe) -> str:
        """Name of the candidate that the recipe makes of this source, the same for every attempt of a run."""
        return content_digest(
            {"recipe": to_json(recipe), "weights": self.weights_digest, "dataset": self.manifest.fingerprint}
        )


def library_versions() -> dict[str, str]:
    """Installed versions, read without importing the libraries."""
    return {name: version(name) for name in LIBRARIES}
