"""Job ``prepare``: raw data to a committed dataset, found again when nothing changed."""

from __future__ import annotations

import logging

from include.config.job_messages import PrepareResult
from include.data.prepare import prepare_dataset
from include.data.sources import roots_of
from include.jobs.context import JobContext

_log = logging.getLogger("plimsoll.job.prepare")


def run(context: JobContext) -> PrepareResult:
    """Prepare the dataset of the request's workload.

    Raises:
        DataError: The source cannot be used; nothing was written.
    """
    data = context.request.workload.data
    roots = roots_of(data_roots=context.settings.data_roots, store_url=context.store.url)
    context.progress(fraction=0.0, stage="read")
    prepared = prepare_dataset(store=context.store, data=data, roots=roots)
    context.progress(fraction=1.0, stage="done", rows=sum(prepared.ref.rows.values()))
    how = "found" if prepared.found else "prepared"
    _log.info("%s dataset %s: %s rows", how, prepared.ref.fingerprint, prepared.ref.rows)
    dropped = prepared.manifest.dropped_rows
    if dropped:
        _log.warning("left out of the source: %s", ", ".join(f"{count} ({why})" for why, count in dropped.items()))
    return PrepareResult(dataset=prepared.ref, found=prepared.found, dropped_rows=dropped)
