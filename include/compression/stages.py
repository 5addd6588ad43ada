"""A recipe taken apart into its stages. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from include.core.contracts.recipe import (
    STEP_ORDER,
    DistillStep,
    ExportStep,
    FactorizeStep,
    PruneStep,
    QuantizeStep,
    Recipe,
)
from include.core.errors import UserError

S = TypeVar("S", PruneStep, FactorizeStep, DistillStep, ExportStep, QuantizeStep)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """The steps of a recipe by kind; a recipe without a kind has None there.

    Attributes:
        prune: Structured pruning.
        factorize: Low-rank factors.
        distill: Recovery.
        export: Export to ONNX, which every recipe has.
        quantize: Quantization of the exported model.
    """

    prune: PruneStep | None
    factorize: FactorizeStep | None
    distill: DistillStep | None
    export: ExportStep
    quantize: QuantizeStep | None

    @property
    def trained(self) -> tuple[PruneStep | FactorizeStep | DistillStep, ...]:
        """Steps that change the weights before the export."""
        return tuple(step for step in (self.prune, self.factorize, self.distill) if step is not None)

    @property
    def exported(self) -> tuple[PruneStep | FactorizeStep | DistillStep | ExportStep, ...]:
        """Steps up to and with the export: what quantization variants share."""
        return (*self.trained, self.export)


def stages(recipe: Recipe) -> Stages:
    """Sort the steps of a recipe.

    Raises:
        UserError: The steps are out of order or repeated, or there is no export.
    """
    kinds = [step.kind for step in recipe.steps]
    positions = [STEP_ORDER.index(kind) for kind in kinds]
    if positions != sorted(set(positions)) or "export" not in kinds:
        raise UserError(
            "recipe cannot be applied",
            where=f"recipe {recipe.name}",
            found=", ".join(kinds) or "no steps",
            allowed=f"the order {', '.join(STEP_ORDER)}, each at most once, with an export",
        )
    export = _step(recipe, ExportStep)
    assert export is not None
    return Stages(
        prune=_step(recipe, PruneStep),
        factorize=_step(recipe, FactorizeStep),
        distill=_step(recipe, DistillStep),
        export=export,
        quantize=_step(recipe, QuantizeStep),
    )


def _step(recipe: Recipe, kind: type[S]) -> S | None:
    return next((step for step in recipe.steps if isinstance(step, kind)), None)
