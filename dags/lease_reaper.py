"""Every ten minutes: end leases that no live run owns."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, Param

from plimsoll.operators.lease_reaper import LeaseReaperOperator
from plimsoll.run_defaults import default_args

DOC = """
### Lease reaper

The last of four layers against capacity that nobody uses and everybody pays for. Ends leases past their expiry and
leases whose run is over; leaves alone what it cannot read. The shared control lease of a machine belongs to no run and
stays.
"""

with DAG(
    dag_id="lease_reaper",
    description="Ends leases that no live run owns.",
    doc_md=DOC,
    schedule=timedelta(minutes=10),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    tags=["plimsoll", "operations"],
    default_args=default_args("platform"),
    params={"dry_run": Param(default=False, type="boolean", title="Dry run", description="Only report.")},
    render_template_as_native_obj=True,
):
    LeaseReaperOperator(task_id="reap", dry_run="{{ params.dry_run }}")
