"""Run checks with Great Expectations and write its Data Docs; the only file that imports the library."""

from __future__ import annotations

import difflib
import logging
import math
import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from include.core.errors import DataError
from include.data.quality import INDEX, Check

_LISTED = 100
_SITE = "docs"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """Outcome of one check.

    Attributes:
        check: What was checked.
        success: Whether it holds.
        result: The library's result as strict JSON, lists cut to 100 entries.
        error: Message of an exception inside the expectation, empty without one.
    """

    check: Check
    success: bool
    result: dict[str, Any]
    error: str


def _import_quietly() -> Any:  # noqa: ANN401 - an untyped library
    """Import the library without its hundreds of log lines and without analytics."""
    # It reads this variable once, when it is imported.
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    logging.getLogger("great_expectations").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", module=r"great_expectations\..*")
    import great_expectations

    return great_expectations


def _expectation(check: Check, *, position: int) -> Any:  # noqa: ANN401 - an untyped library
    """The library's object of a check.

    Raises:
        DataError: No such expectation, or wrong arguments; the message says which.
    """
    from great_expectations.exceptions import ExpectationNotFoundError
    from great_expectations.expectations.registry import (
        get_expectation_impl,
        list_registered_expectation_implementations,
    )

    try:
        build = get_expectation_impl(check.type)
    except ExpectationNotFoundError as error:
        near = difflib.get_close_matches(check.type, list_registered_expectation_implementations(), n=3)
        raise DataError(
            "unknown expectation",
            where=f"{check.setting}.type",
            found=check.type,
            allowed="types of Great Expectations" + (f", perhaps {', '.join(near)}" if near else ""),
        ) from error
    try:
        return build(**check.arguments, meta={"position": position, "setting": check.setting, "why": check.why})
    except (TypeError, ValueError) as error:  # the library's validation error is a ValueError
        raise DataError(
            f"wrong arguments for {check.type}",
            where=f"{check.setting}.arguments",
            found=str(check.arguments)[:200],
            allowed=" ".join(str(error).split())[:300],
        ) from error


def _strict_json(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Long lists cut, infinities and NaN as text: JSON has no words for them."""
    if isinstance(value, dict):
        return {str(key): _strict_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict_json(item) for item in value[:_LISTED]]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _exception_message(info: Any) -> str:  # noqa: ANN401 - two shapes: flat, or one entry per metric
    if not isinstance(info, dict):
        return ""
    if "raised_exception" in info:
        return str(info.get("exception_message") or "") if info["raised_exception"] else ""
    return next((text for text in map(_exception_message, info.values()) if text), "")


def _context(docs: Path) -> Any:  # noqa: ANN401 - an untyped library
    """An in-memory context without progress bars whose Data Docs go to a folder."""
    gx = _import_quietly()
    from great_expectations.data_context.types.base import ProgressBarsConfig

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    context.add_data_docs_site(
        _SITE,
        {
            "class_name": "SiteBuilder",
            "show_how_to_buttons": False,
            "store_backend": {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(docs)},
            "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
        },
    )
    # The context always has a temporary site of its own; without it there is one set of pages.
    context.delete_data_docs_site("local_site")
    return context


def _validate(context: Any, *, name: str, frame: Any, checks: list[Check]) -> list[CheckResult]:  # noqa: ANN401 - Great Expectations and pandas are not typed here
    gx = _import_quietly()
    expectations = [_expectation(check, position=position) for position, check in enumerate(checks)]
    suite = context.suites.add(gx.ExpectationSuite(name=name, expectations=expectations))
    batch = (
        context.data_sources.add_pandas(name).add_dataframe_asset("frame").add_batch_definition_whole_dataframe("all")
    )
    definition = context.validation_definitions.add(gx.ValidationDefinition(name=name, data=batch, suite=suite))
    checkpoint = gx.Checkpoint(
        name=name,
        validation_definitions=[definition],
        actions=[gx.checkpoint.UpdateDataDocsAction(name="docs", site_names=[_SITE])],
        result_format={
            "result_format": "COMPLETE",
            "unexpected_index_column_names": list(INDEX[name]),
            "return_unexpected_index_query": False,
        },
    )
    outcome = context.checkpoints.add(checkpoint).run(batch_parameters={"dataframe": frame})
    return [
        CheckResult(
            check=checks[item.expectation_config.meta["position"]],
            success=bool(item.success),
            result=_strict_json(item.to_json_dict()["result"]),
            error=_exception_message(item.exception_info),
        )
        for run in outcome.run_results.values()
        for item in run.results
    ]


def check_arguments(checks: list[Check]) -> None:
    """Refuse checks that cannot be evaluated at all.

    Raises:
        DataError: An expectation is unknown or has wrong arguments.
    """
    _import_quietly()
    for position, check in enumerate(checks):
        _expectation(check, position=position)


def run_checks(*, tables: dict[str, Any], checks: list[Check], docs: Path) -> list[CheckResult]:
    """Run all checks and write the Data Docs.

    Args:
        tables: Table name -> pandas frame.
        checks: What must hold; every table should have at least one.
        docs: Folder for the Data Docs; ``index.html`` is the entry.

    Raises:
        DataError: A check of the workload file is unknown or has wrong arguments.
    """
    context = _context(docs)
    check_arguments(checks)  # a mistake in a late one must not cost the time of the early ones
    results = []
    for name, frame in tables.items():
        chosen = [check for check in checks if check.table == name]
        if chosen:
            results += _validate(context, name=name, frame=frame, checks=chosen)
    return results
