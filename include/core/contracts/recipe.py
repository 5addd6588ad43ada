"""Recipes: ordered lists of typed compression steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneStep:
    """Structured pruning by group magnitude.

    Attributes:
        ratio: Fraction of channels to remove in each prunable layer, 0..1.
        round_to: Keep channel counts a multiple of this.
    """

    kind: Literal["prune"] = "prune"
    ratio: float = 0.5
    round_to: int = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class DistillStep:
    """Recovery by distillation from the uncompressed model.

    Attributes:
        epochs: Passes over the training split.
        temperature: Softmax temperature.
        alpha: Weight of the distillation loss; 1 - alpha weighs the cross-entropy.
        lr: Learning rate of AdamW.
    """

    kind: Literal["distill"] = "distill"
    epochs: int = 10
    temperature: float = 2.0
    alpha: float = 0.5
    lr: float = 0.002


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportStep:
    """Export to ONNX with a dynamic batch dimension.

    Attributes:
        opset: ONNX operator set.
    """

    kind: Literal["export"] = "export"
    opset: int = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizeStep:
    """Static INT8 quantization in ONNX Runtime: QDQ, unsigned activations, signed weights.

    Attributes:
        per_channel: One scale per output channel of the weights.
        calibration_rows: Rows of the training split used for calibration.
    """

    kind: Literal["quantize"] = "quantize"
    per_channel: bool = True
    calibration_rows: int = 256


RecipeStep = PruneStep | DistillStep | ExportStep | QuantizeStep


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A named, ordered list of steps. Legal order: prune, distill, export, quantize."""

    name: str
    steps: tuple[RecipeStep, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """The artefact that a recipe made.

    Attributes:
        recipe: Name of the recipe.
        recipe_hash: Hash of recipe and source checkpoint.
        model_uri: Store URI of ``model.onnx``.
        sha256: Digest of the model file.
        size_bytes: Size of the model file.
        parameters: Parameters left, None where not counted.
    """

    recipe: str
    recipe_hash: str
    model_uri: str
    sha256: str
    size_bytes: int
    parameters: int | None
