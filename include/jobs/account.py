"""Job ``account``: log cost, energy and carbon of a run to its MLflow run.

Input ``totals``: name -> number (a figure), text (how a figure came about) or null (not known, so not logged).
"""

from __future__ import annotations

import math

from include.config.job_messages import AccountResult
from include.core.errors import UserError
from include.jobs.context import JobContext
from include.registry.mlflow_registry import MlflowRegistry
from include.registry.versions import RunKey


def run(context: JobContext) -> AccountResult:
    """Log ``request.inputs["totals"]``; a run that registered nothing gets an MLflow run for its figures.

    Raises:
        UserError: There are no totals, or one is neither number, text nor null.
    """
    request = context.request
    metrics, tags = _split(request.inputs.get("totals"), where=request.base)
    if not metrics:
        return AccountResult(mlflow_run_id=None)
    registry = MlflowRegistry(context.settings.mlflow_uri)
    run_key = RunKey(workload=request.workload.name, run_id=request.run_id)
    return AccountResult(mlflow_run_id=registry.log_metrics_to_run(run_key, metrics=metrics, tags=tags))


def _split(totals: object, *, where: str) -> tuple[dict[str, float], dict[str, str]]:
    if not isinstance(totals, dict):
        raise UserError("account request is incomplete", where=where, found="no inputs.totals")
    metrics: dict[str, float] = {}
    tags: dict[str, str] = {}
    for name, value in totals.items():
        if isinstance(value, str):
            tags[f"plimsoll.{name}"] = value
        elif isinstance(value, int | float) and math.isfinite(value):
            metrics[name] = float(value)
        elif value is not None:
            raise UserError(
                "a total cannot be logged", where=f"inputs.totals.{name}", found=repr(value),
                allowed="a number, text or null",
            )  # fmt: skip
    return metrics, tags
