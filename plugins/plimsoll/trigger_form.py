"""The trigger form of a lifecycle DAG: typed, described fields that start from the workload file's own values."""

from __future__ import annotations

from airflow.sdk import Param

from include.config.recipes import PRESETS
from include.config.workload import MODEL_PRESETS, Workload


def trigger_form(workload: Workload) -> dict[str, Param]:
    """Parameters of the DAG of a workload. Defaults are constants, so the DAG's version changes only with the file."""
    limits, compute = workload.limits, workload.compute
    recipes = [entry if isinstance(entry, str) else entry.name for entry in workload.compression.recipes]
    return {
        "objective": Param(
            compute.objective.value,
            type="string",
            enum=["cost", "time", "carbon", *(["weighted"] if compute.weights else [])],
            title="Objective",
            description="What the plan minimises.",
            section="Plan",
        ),
        "purchase": Param(
            compute.purchase,
            type="string",
            enum=["auto", "spot", "on-demand"],
            title="Purchase option",
            description=f"auto: the criticality of the workload ({workload.criticality.value}) decides.",
            section="Plan",
        ),
        "plan_only": Param(
            default=False,
            type="boolean",
            title="Plan only",
            description="Stop before any capacity is rented.",
            section="Plan",
        ),
        "deadline_h": Param(
            limits.deadline_h,
            type=["null", "number"],
            exclusiveMinimum=0,
            title="Deadline (hours)",
            description="Hours from the start of the run; empty: none.",
            section="Limits",
        ),
        "budget_usd": Param(
            limits.budget_usd,
            type=["null", "number"],
            exclusiveMinimum=0,
            title="Budget (US dollars)",
            description="For the whole run; a plan above it is refused before it spends.",
            section="Limits",
        ),
        "max_gco2e": Param(
            limits.max_gco2e,
            type=["null", "number"],
            exclusiveMinimum=0,
            title="Carbon limit (grams CO2e)",
            description="For the whole run; a run above it ends as failed.",
            section="Limits",
        ),
        "recipes": Param(
            [],
            type="array",
            items={"type": "string"},
            examples=sorted({*recipes, *PRESETS}),
            title="Recipes",
            description=f"Compression recipes to try; empty: {', '.join(recipes)}.",
            section="Compression",
        ),
        "deploy": Param(
            workload.serving.deploy,
            type="boolean",
            title="Deploy",
            description="Serve the chosen model; off: register only.",
            section="Serving",
        ),
        "interruption_drill": Param(
            default=False,
            type="boolean",
            title="Interruption drill",
            description="Inject one interruption notice into the training.",
            section="Drill",
        ),
        "interruption_at": Param(
            0.5,
            type="number",
            exclusiveMinimum=0,
            exclusiveMaximum=1,
            title="Notice at",
            description="Fraction of the training after which the notice comes.",
            section="Drill",
        ),
        "profile_steps": Param(
            0,
            type="integer",
            minimum=0,
            maximum=20,
            title="Steps to profile",
            description="Write a torch.profiler trace of so many steps at the start of the training; 0: none.",
            section="Training",
        ),
        "data_uri": Param(
            None,
            type=["null", "string"],
            title="Other data",
            description="Table file, image folder or WebDataset archives instead of the workload's data.",
            section="Data",
        ),
        "label": Param(
            None,
            type=["null", "string"],
            title="Label column",
            description="Column to predict in the other data.",
            section="Data",
        ),
        "model_preset": Param(
            None,
            type=["null", "string"],
            enum=[None, *sorted(MODEL_PRESETS)],
            title="Model",
            description="Model to train on the other data.",
            section="Data",
        ),
    }
