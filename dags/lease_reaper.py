"""Every ten minutes: end leases that no live run owns."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, Param

from plimsoll.operators.lease_reaper import LeaseReaperOperator
from plimsoll.run_defaults import default_args

DOC = """
### Lease reaper

The last of four layers against capacity that nobody uses and everybody pays for. Ends leases past their expiry and
leases whose run is over, with all they have on EC2: instances, fleets, spot requests, volumes, addresses, network
interfaces, snapshots and launch templates. It keeps what it cannot judge, and never sees what lacks the tags of this
installation. The shared control lease of a machine belongs to no run and stays.

The task's log has a table of what is rented; the same pass runs without Airflow's scheduler with `make reap`.
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
    params={
        "dry_run": Param(default=False, type="boolean", title="Dry run", description="Only report."),
        "cap": Param(
            default=50,
            type="integer",
            minimum=1,
            maximum=1000,
            title="Cap",
            description="Most leases that the pass may end; more is refused as a whole.",
        ),
    },
    render_template_as_native_obj=True,
):
    LeaseReaperOperator(task_id="reap", dry_run="{{ params.dry_run }}", cap="{{ params.cap }}")
