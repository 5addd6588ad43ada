"""The ``compression`` section: recipes by name or written out, and their translation to contract types."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from include.config.schedule import Edge
from include.core.contracts.recipe import DistillStep, ExportStep, PruneStep, QuantizeStep, Recipe, RecipeStep

_EXPORT = ExportStep()
_INT8 = QuantizeStep()
PRESETS: dict[str, tuple[RecipeStep, ...]] = {
    "onnx-fp32": (_EXPORT,),
    "static-int8": (_EXPORT, _INT8),
    "pruned-distilled-fp32": (PruneStep(), DistillStep(), _EXPORT),
    "pruned-distilled-int8": (PruneStep(), DistillStep(), _EXPORT, _INT8),
}
BASELINE = "onnx-fp32"
_ORDER = ("prune", "distill", "export", "quantize")


class Prune(Edge):
    """Structured pruning by group magnitude."""

    kind: Literal["prune"]
    ratio: float = Field(default=0.5, gt=0, lt=0.95)
    round_to: int = Field(default=8, ge=1, le=64)


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
    """Static INT8 quantization."""

    kind: Literal["quantize"]
    per_channel: bool = True
    calibration_rows: int = Field(default=256, ge=32, le=100_000)


Step = Annotated[Prune | Distill | Export | Quantize, Field(discriminator="kind")]
_CONTRACT: dict[str, type[RecipeStep]] = {
    "prune": PruneStep, "distill": DistillStep, "export": ExportStep, "quantize": QuantizeStep,
}  # fmt: skip


class RecipeEntry(Edge):
    """A recipe written out in the workload file."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,40}$")
    steps: tuple[Step, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _legal_order(self) -> RecipeEntry:
        positions = [_ORDER.index(step.kind) for step in self.steps]
        if positions != sorted(set(positions)) or "export" not in {step.kind for step in self.steps}:
            raise ValueError("steps must be in the order prune, distill, export, quantize, each once, with an export")
        return self


class CompressionSection(Edge):
    """Which recipes to try and what the chosen artefact must fulfil."""

    recipes: tuple[str | RecipeEntry, ...] = Field(default=tuple(PRESETS), min_length=1)

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
