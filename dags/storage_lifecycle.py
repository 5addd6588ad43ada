"""Daily: list what storage nobody needs any more; apply it when a person says so."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.sdk import DAG, Param

from plimsoll.operators.storage_lifecycle import StorageLifecycleOperator
from plimsoll.run_defaults import default_args

DOC = """
### Storage lifecycle

Plans the clean-up of checkpoints and control files of runs that are over. **Dry run by default**: the daily run only
reports. To apply, trigger it with *Apply* switched on; objects go to quarantine first and are deleted after the wait.
Whatever a registered model refers to is kept, and if the registry cannot be read nothing is touched.
"""

with DAG(
    dag_id="storage_lifecycle",
    description="Plans, and on request applies, the clean-up of the object store.",
    doc_md=DOC,
    schedule="@daily",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    tags=["plimsoll", "operations"],
    default_args=default_args("platform"),
    params={
        "apply": Param(default=False, type="boolean", title="Apply", description="Quarantine and delete."),
        "max_objects": Param(10_000, type="integer", minimum=1, title="Most objects", description="More is refused."),
        "max_share": Param(
            0.5,
            type="number",
            minimum=0,
            maximum=1,
            title="Largest share",
            description="Share of all bytes; more is refused.",
        ),
    },
    render_template_as_native_obj=True,
):
    StorageLifecycleOperator(
        task_id="clean_up",
        scope="all",
        apply="{{ params.apply }}",
        max_objects="{{ params.max_objects }}",
        max_share="{{ params.max_share }}",
    )
