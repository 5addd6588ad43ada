"""The ``compression`` section: recipes by name or written out, and their translation to contract types."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from include.config.schedule import Edge
from include.core.contracts.recipe import (
    STEP_ORDER,
    Calibrator,
    DistillStep,
    ExportStep,
    FactorizeStep,
    PruneStep,
    QuantizeMethod,
    QuantizeStep,
    Recipe,
    RecipeStep,
)

_EXPORT = ExportStep()
_INT8 = QuantizeStep()
PRESETS: dict[str, tuple[RecipeStep, ...]] = {
    "onnx-fp32": (_EXPORT,),
    "static-int8": (_EXPORT, _INT8),
    "dynamic-int8": (_EXPORT, QuantizeStep(method="dynamic")),
    "weight-int8": (_EXPORT, QuantizeStep(method="weight-only")),
    "weight-int4": (_EXPORT, QuantizeStep(method="weight-only", bits=4)),
    "factorized-fp32": (FactorizeStep(), DistillStep(), _EXPORT),
    "pruned-distilled-fp32": (PruneStep(), DistillStep(), _EXPORT),
    "pruned-distilled-int8": (PruneStep(), DistillStep(), _EXPORT, _INT8),
}
BASELINE = "onnx-fp32"
# Tried where a workload names none.
DEFAULT_RECIPES = ("onnx-fp32", "static-int8", "pruned-distilled-fp32", "pruned-distilled-int8")


class Prune(Edge):
    """Structured pruning by group magnitude."""

    kind: Literal["prune"]
    ratio: float = Field(default=0.5, gt=0, lt=0.95)
    round_to: int = Field(default=8, ge=1, le=64)


class Factorize(Edge):
    """Low-rank factors for layers with many weights."""

    kind: Literal["factorize"]
    max_error: float = Field(default=0.1, gt=0, lt=1, description="Relative output error that a layer may have.")
    scope: Literal["linear", "all"] = Field(default="linear", description="'all' factorizes convolutions too.")
    calibration_rows: int = Field(default=256, ge=32, le=100_000)


class Distill(Edge):
    """Recovery by distillation from the uncompressed model."""

    kind: Literal["distill"]
    epochs: int = Field(default=10, ge=1, le=1000)
    temperature: float = Field(default=2.0, gt=0, le=20)
    alpha: float = Field(default=0.5, ge=0, le=1)
    lr: float = Field(default=0.002, gt=0, le=1)


class Export(Edge):
    """Export to ONNX."""

    kind: Literal["export"]
    opset: int = Field(default=20, ge=18, le=22)


class Quantize(Edge):
    """Quantization of the exported model."""

    kind: Literal["quantize"]
    method: QuantizeMethod = Field(default="static", description="'dynamic' and 'weight-only' need no calibration.")
    bits: Literal[4, 8] = Field(default=8, description="4 for 'weight-only' alone.")
    per_channel: bool = True
    calibration_rows: int = Field(default=256, ge=32, le=100_000)
    calibrator: Calibrator = Field(default="minmax", description="How 'static' finds the ranges of activations.")
    keep_float: Literal["none", "first-last"] = Field(default="none", description="Layers that stay as they are.")
    block_size: Literal[16, 32, 64, 128] = Field(default=32, description="Weights per scale, 'weight-only' alone.")
    portable: bool = Field(
        default=True, description="Right on processors without VNNI too, for one bit of each INT8 weight."
    )

    @model_validator(mode="after")
    def _four_bits_are_weights(self) -> Quantize:
        if self.bits == 4 and self.method != "weight-only":  # noqa: PLR2004 - the field's own name says what it is
            raise ValueError(f"'bits: 4' with 'method: weight-only', not with '{self.method}'")
        return self


Step = Annotated[Prune | Factorize | Distill | Export | Quantize, Field(discriminator="kind")]
_CONTRACT: dict[str, type[RecipeStep]] = {
    "prune": PruneStep,
    "factorize": FactorizeStep,
    "distill": DistillStep,
    "export": ExportStep,
    "quantize": QuantizeStep,
}


class RecipeEntry(Edge):
    """A recipe written out in the workload file."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,40}$")
    steps: tuple[Step, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _legal_order(self) -> RecipeEntry:
        positions = [STEP_ORDER.index(step.kind) for step in self.steps]
        if positions != sorted(set(positions)) or "export" not in {step.kind for step in self.steps}:
            raise ValueError(f"steps must be in the order {', '.join(STEP_ORDER)}, each once, with an export")
        return self


class CompressionSection(Edge):
    """Which recipes to try and what the chosen artefact must fulfil."""

    recipes: tuple[str | RecipeEntry, ...] = Field(default=DEFAULT_RECIPES, min_length=1)

    @field_validator("recipes", mode="after")
    @classmethod
    def _known_and_unique(cls, value: tuple[str | RecipeEntry, ...]) -> tuple[str | RecipeEntry, ...]:
        names = [entry if isinstance(entry, str) else entry.name for entry in value]
        unknown = [entry for entry in value if isinstance(entry, str) and entry not in PRESETS]
        if unknown:
            raise ValueError(f"unknown recipe {unknown[0]!r}; allowed: {', '.join(PRESETS)}, or one with steps")
        if len(set(names)) != len(names):
            raise ValueError("each recipe name may stand only once")
        if BASELINE not in names:
            raise ValueError(f"the baseline recipe {BASELINE!r} must be among the recipes: others are compared with it")
        return value


def contract_recipes(section: CompressionSection, only: tuple[str, ...] = ()) -> tuple[Recipe, ...]:
    """Contract recipes of a section.

    Args:
        section: The parsed section.
        only: Names to keep; empty keeps all. The baseline is always kept.
    """
    recipes = []
    for entry in section.recipes:
        name = entry if isinstance(entry, str) else entry.name
        if only and name not in only and name != BASELINE:
            continue
        steps = (
            PRESETS[entry]
            if isinstance(entry, str)
            else tuple(_CONTRACT[step.kind](**step.model_dump()) for step in entry.steps)
        )
        recipes.append(Recipe(name=name, steps=steps))
    return tuple(recipes)
