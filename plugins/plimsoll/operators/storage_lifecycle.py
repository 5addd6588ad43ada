"""Clean up the object store: plan, limits, apply."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, ClassVar, Literal

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from include.core.clock import SystemClock
from include.core.errors import UserError
from include.core.ids import run_prefix
from plimsoll.hooks.installation import Installation, connect
from plimsoll.hooks.registry_references import registry_references

_LEASE_FILES_STAY = timedelta(days=1)


class StorageLifecycleOperator(BaseOperator):
    """Moves what nobody needs any more to quarantine, and deletes what waited there long enough.

    Without ``apply`` it only reports. Whatever a registered model refers to and the newest valid checkpoint of every
    run stay; if the registry cannot be read, nothing is touched.

    Args:
        scope: ``run``: checkpoints of the own run, whose training has ended; ``all``: every run that is over.
        apply: Do it; otherwise a dry run.
        max_objects: Most objects that may go at once; a plan beyond it is refused.
        max_share: Largest share of the store's bytes that may go at once; a plan beyond it is refused.
    """

    template_fields: ClassVar[Sequence[str]] = ("apply", "max_objects", "max_share")

    def __init__(
        self,
        *,
        scope: Literal["run", "all"] = "all",
        apply: bool | str = False,
        max_objects: int | str = 10_000,
        max_share: float | str = 0.5,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.scope = scope
        self.apply = apply
        self.max_objects = max_objects
        self.max_share = max_share

    def execute(self, context: Any) -> dict[str, Any]:
        """Plan, check the limits, apply or only report."""
        # Needed when the task runs, not when its DAG file is parsed.
        from include.core.json_codec import to_json
        from include.storage.apply import apply_cleanup
        from include.storage.inventory import take_inventory
        from include.storage.limits import CleanupLimits
        from include.storage.plan import plan_cleanup

        installation = connect()
        ti = context["ti"]
        own = run_prefix(workload=ti.dag_id, run_id=ti.run_id)
        runs_over = [own] if self.scope == "run" else _runs_over(installation)
        now = SystemClock().now()
        plan = plan_cleanup(
            objects=take_inventory(installation.store, runs_over=runs_over),
            protect=registry_references(installation.settings, installation.store),
            runs_over=runs_over,
            leases_over=() if self.scope == "run" else installation.ledger.ended_leases(before=now - _LEASE_FILES_STAY),
            now=now,
        )
        limits = CleanupLimits(max_objects=int(self.max_objects), max_share=float(self.max_share))
        try:
            report = apply_cleanup(
                installation.store, plan, now=now, limits=limits, dry_run=str(self.apply).lower() != "true"
            )
        except UserError as error:
            raise AirflowFailException(f"run={ti.run_id} {error}") from error
        for item in (*plan.to_quarantine, *plan.to_delete):
            self.log.info("run=%s %s: %s", ti.run_id, item.prefix, item.reason)
        answer = dict(to_json(report))
        answer["kept"] = len(plan.kept)
        answer["skipped"] = len(report.skipped)
        if self.scope == "run":
            installation.store.put_json(f"{own}/cleanup.json", answer)
        return answer


def _runs_over(installation: Installation) -> list[str]:
    """Runs that were sealed and hold no lease now; a run that was cleared and trains again is not over."""
    busy = {run_prefix(workload=lease.dag_id, run_id=lease.run_id) for lease in installation.ledger.open_leases()}
    sealed = (
        key.removesuffix("/sealed.json") for key, _ in installation.store.list("runs") if key.endswith("/sealed.json")
    )
    return [prefix for prefix in sealed if prefix not in busy]
