"""What a person may change for one run in the trigger form, and the workload that results."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from include.config.recipes import BASELINE, PRESETS
from include.config.schedule import Edge
from include.config.workload import MODEL_PRESETS, Workload


class RunOptions(Edge):
    """Values of the trigger form. None or empty means: as the workload file says."""

    objective: Literal["cost", "time", "carbon", "weighted"] | None = None
    purchase: Literal["auto", "spot", "on-demand"] | None = None
    deadline_h: float | None = Field(default=None, gt=0)
    budget_usd: float | None = Field(default=None, gt=0)
    max_gco2e: float | None = Field(default=None, gt=0)
    recipes: tuple[str, ...] = ()
    interruption_drill: bool = False
    interruption_at: float = Field(default=0.5, gt=0, lt=1)
    deploy: bool | None = None
    plan_only: bool = False
    data_uri: str | None = None
    label: str | None = None
    model_preset: str | None = None
    profile_steps: int = Field(default=0, ge=0, le=20)


def apply_options(workload: Workload, options: RunOptions) -> Workload:
    """Workload of one run: the file with the form's values laid over it, validated again as a whole.

    Raises:
        pydantic.ValidationError: The combination is not a valid workload.
    """
    raw = workload.model_dump(mode="json")
    for section, key, value in (
        ("compute", "objective", options.objective),
        ("compute", "purchase", options.purchase),
        ("limits", "deadline_h", options.deadline_h),
        ("limits", "budget_usd", options.budget_usd),
        ("limits", "max_gco2e", options.max_gco2e),
        ("serving", "deploy", options.deploy),
        ("data", "label", options.label),
    ):
        if value is not None:
            raw[section][key] = value
    if options.data_uri:
        # Another table has other columns: what the file says of its own columns does not apply to it.
        raw["data"].update(source={"kind": "uri", "uri": options.data_uri}, drop=[], image_shape=None, expectations=[])
    if options.model_preset:
        raw["model"] = {"factory": MODEL_PRESETS.get(options.model_preset, options.model_preset)}
    if options.recipes:
        known = {r if isinstance(r, str) else r["name"]: r for r in raw["compression"]["recipes"]}
        wanted = dict.fromkeys((BASELINE, *options.recipes))
        raw["compression"]["recipes"] = [known.get(name, name) for name in wanted]
    return Workload.model_validate(raw)


FORM_RECIPES = tuple(PRESETS)
FORM_MODELS = tuple(MODEL_PRESETS)
