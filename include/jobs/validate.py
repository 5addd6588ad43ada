"""Job ``validate``: what must hold of the prepared rows, checked before a run spends anything.

The full result and the Data Docs go to ``<run_prefix>/validation/attempt-<n>/`` whether the checks hold or not.
"""

from __future__ import annotations

import logging
from dataclasses import asdict
from pathlib import Path

from include.config.job_messages import ValidateResult
from include.core.errors import DataError, UserError
from include.core.store import ObjectStore
from include.data.expectations import CheckResult, run_checks
from include.data.manifest import read_manifest
from include.data.quality import (
    CLASSES,
    COLUMNS,
    IDENTITY,
    INDEX,
    ROWS,
    automatic_checks,
    quality_tables,
    read_rows,
    row_columns,
    workload_checks,
)
from include.jobs.context import JobContext

_SHOWN_FAILURES = 5
_SHOWN_ROWS = 5
_SHOWN_VALUE = 60
_COUNTED = {ROWS: "rows", IDENTITY: "rows", COLUMNS: "columns", CLASSES: "classes"}

_log = logging.getLogger("plimsoll.job.validate")


def _examples(item: CheckResult) -> str:
    """First offending rows: what names them, and their values."""
    shown = []
    names = INDEX[item.check.table]
    for entry in item.result.get("unexpected_index_list", [])[:_SHOWN_ROWS]:
        ordered = {name: entry[name] for name in (*names, *entry) if str(entry.get(name, ""))}
        shown.append(" ".join(f"{name}={str(value)[:_SHOWN_VALUE]}" for name, value in ordered.items()))
    return "; ".join(shown)


def describe_failure(item: CheckResult) -> str:
    """One failed check for people: the expectation, the column, how many rows, and the first of them."""
    arguments, result = item.check.arguments, item.result
    column = arguments.get("column") or arguments.get("column_list") or arguments.get("column_set")
    text = f"{item.check.type}" + (f" on {column!r}" if column else "")
    if item.error:
        return f"{text}: {item.error[:300]} [{item.check.setting}]"
    if "unexpected_count" in result:
        text += f": {result['unexpected_count']} of {result.get('element_count')} {_COUNTED[item.check.table]}"
    elif "observed_value" in result:
        text += f": observed {str(result['observed_value'])[:200]}"
    limits = {k: v for k, v in arguments.items() if k not in {"column", "column_set"}}
    examples = _examples(item)
    return text + (f" ({examples})" if examples else "") + f", expected {str(limits)[:120]} [{item.check.setting}]"


def _upload_folder(store: ObjectStore, folder: Path, prefix: str) -> None:
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        store.upload(path, f"{prefix}/{path.relative_to(folder).as_posix()}")


def _publish(context: JobContext, *, results: list[CheckResult], docs: Path) -> tuple[str, str]:
    """Write report and Data Docs into the store; returns their URIs."""
    request, store = context.request, context.store
    prefix = f"{request.run_prefix}/validation/attempt-{request.attempt}"
    _upload_folder(store, docs, f"{prefix}/docs")
    report = {
        "success": all(item.success for item in results),
        "dataset": request.dataset.uri if request.dataset else None,
        "checks": [asdict(item) for item in results],
    }
    store.put_json(f"{prefix}/report.json", report)
    return store.uri(f"{prefix}/report.json"), store.uri(f"{prefix}/docs/index.html")


def run(context: JobContext) -> ValidateResult:
    """Check the dataset of the request.

    Raises:
        DataError: At least one check does not hold, or a check of the workload file is wrong.
    """
    request = context.request
    if request.dataset is None:
        raise UserError("the request names no dataset", where=request.base, allowed="the result of prepare")
    data = request.workload.data
    manifest = read_manifest(context.store, request.dataset.uri)
    tables = quality_tables(read_rows(context.store, manifest), manifest)
    checks = [*automatic_checks(manifest, data), *workload_checks(data, row_columns(manifest))]
    context.progress(fraction=0.2, stage="check", checks=len(checks))
    docs = context.job_dir / "data-docs"
    results = run_checks(tables=tables, checks=checks, docs=docs)
    context.progress(fraction=0.9, stage="publish")
    report_uri, docs_uri = _publish(context, results=results, docs=docs)
    failed = [item for item in results if not item.success]
    if failed:
        lines = [describe_failure(item) for item in failed[:_SHOWN_FAILURES]]
        more = f" ... and {len(failed) - _SHOWN_FAILURES} more" if len(failed) > _SHOWN_FAILURES else ""
        raise DataError(
            f"{len(failed)} of {len(results)} expectations do not hold",
            where=request.dataset.uri,
            found=" / ".join(lines) + more,
            todo=f"mend the source or the limits in the workload file; all rows: {report_uri}, pages: {docs_uri}",
        )
    _log.info("all %d expectations hold, pages: %s", len(results), docs_uri)
    return ValidateResult(evaluated=len(results), report_uri=report_uri, docs_uri=docs_uri)
