"""Recipes: ordered lists of typed compression steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

QuantizeMethod = Literal["static", "dynamic", "weight-only"]
Calibrator = Literal["minmax", "entropy", "percentile"]


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
class FactorizeStep:
    """Low-rank factors in place of the weights of linear and convolution layers.

    Attributes:
        max_error: Relative error that a layer's output may have on training rows, which chooses its rank.
        scope: ``linear`` leaves convolutions as they are, ``all`` factorizes them too.
        calibration_rows: Rows of the training split that the error is measured on.
    """

    kind: Literal["factorize"] = "factorize"
    max_error: float = 0.1
    scope: Literal["linear", "all"] = "linear"
    calibration_rows: int = 256


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
    """Quantization of the exported model in ONNX Runtime.

    Attributes:
        method: ``static`` has calibrated INT8 activations and weights, ``dynamic`` finds the ranges of activations
            while it runs, ``weight-only`` leaves activations in floating point.
        bits: Bits of a weight: 8, or 4 for ``weight-only``.
        per_channel: One scale per output channel of the weights; ``weight-only`` has one per block instead.
        calibration_rows: Rows of the training split used for calibration, ``static`` alone.
        calibrator: How ``static`` turns the activations it saw into ranges.
        keep_float: ``first-last`` leaves the first and the last layer with weights in floating point.
        block_size: Weights that share a scale, ``weight-only`` alone.
        portable: Leave one bit of each INT8 weight unused where activations are INT8 too. Processors without VNNI add
            two products of 8 bits in 16 and cut off what does not fit, which makes answers wrong by several percent.
    """

    kind: Literal["quantize"] = "quantize"
    method: QuantizeMethod = "static"
    bits: Literal[4, 8] = 8
    per_channel: bool = True
    calibration_rows: int = 256
    calibrator: Calibrator = "minmax"
    keep_float: Literal["none", "first-last"] = "none"
    block_size: Literal[16, 32, 64, 128] = 32
    portable: bool = True


RecipeStep = PruneStep | FactorizeStep | DistillStep | ExportStep | QuantizeStep
# The order in which steps make sense: structure, recovery of quality, export, numbers.
STEP_ORDER = ("prune", "factorize", "distill", "export", "quantize")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A named list of steps in the order of `STEP_ORDER`, each at most once."""

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
