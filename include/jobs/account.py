"""Job ``account``: log cost, energy and carbon of a run, and the series of its training, to its MLflow run.

Inputs: ``totals`` (the ledger's sums, with methods) and optionally ``predicted`` (what the plan expected) and
``recommendation`` (for the next run). Numbers and decimal strings become metrics, text becomes tags, nested figures get
dotted names, null is not known and not logged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import Any

from include.config.job_messages import AccountResult
from include.core.errors import UserError
from include.jobs.context import JobContext
from include.jobs.training_series import training_series
from include.registry.mlflow_registry import MlflowRegistry
from include.registry.versions import RunKey

# MLflow refuses longer values.
_LONGEST_TAG = 5000
_KNOWN_PART = "known_part"


def run(context: JobContext) -> AccountResult:
    """Log the totals; a run that registered nothing gets an MLflow run for its figures.

    Raises:
        UserError: There are no totals, or one cannot be logged.
    """
    request = context.request
    totals = request.inputs.get("totals")
    if not isinstance(totals, dict):
        raise UserError("account request is incomplete", where=request.base, found="no inputs.totals")
    further = {name: request.inputs.get(name) for name in ("predicted", "recommendation")}
    figures = {**_without_misleading(totals), **further}
    metrics: dict[str, float] = {}
    tags: dict[str, str] = {}
    for name, value in _leaves(figures):
        if isinstance(value, float):
            metrics[name] = value
        else:
            tags[f"plimsoll.{name}"] = value[:_LONGEST_TAG]
    training = training_series(context.store, run_prefix=request.run_prefix)
    tags |= {f"plimsoll.{name}": value[:_LONGEST_TAG] for name, value in training.tags.items() if value}
    if not metrics and not training.points:
        return AccountResult(mlflow_run_id=None)
    registry = MlflowRegistry(context.settings.mlflow_uri)
    run_key = RunKey(workload=request.workload.name, run_id=request.run_id)
    found = registry.runs.log_metrics(run_key, metrics=metrics, tags=tags)
    if training.points:
        registry.runs.log_series(run_key, training.points)
    return AccountResult(mlflow_run_id=found)


def _without_misleading(totals: dict[str, Any]) -> dict[str, Any]:
    """Totals with only those known parts that say more than the total: of unknown totals, and not an empty sum's 0."""
    known = totals.get(_KNOWN_PART)
    if not isinstance(known, dict):
        return totals
    telling = {name: value for name, value in known.items() if totals.get(name) is None and float(value)}
    return {**totals, _KNOWN_PART: telling}


def _leaves(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, float | str]]:
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _leaves(value, f"{name}.")
        elif isinstance(value, list):
            if value:
                yield name, "; ".join(map(str, value))
        elif value is not None:
            yield name, _leaf(name, value)


def _leaf(name: str, value: object) -> float | str:
    if isinstance(value, str):
        try:
            number = Decimal(value)
        except InvalidOperation:
            return value
        return float(number) if number.is_finite() else value
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    raise UserError(
        "a figure cannot be logged", where=f"inputs.totals.{name}", found=repr(value), allowed="number, text or null"
    )
