"""Capacity of a run: launch as a setup, wait, release as its teardown."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from include.core.contracts.lease import LeaseState
from include.core.errors import UserError
from include.core.ids import group_id
from plimsoll.hooks.installation import connect
from plimsoll.hooks.run_context import read_run
from plimsoll.triggers.lease_ready_trigger import LeaseReadyTrigger


class ProvisionGpuOperator(BaseOperator):
    """Launches the lease of a group; quick, idempotent, and made to be a setup.

    The intent is in the ledger before the engine is called; a retry finds it and launches with the same token. When the
    task is killed while it runs, its teardown would never run, so it ends its own lease.

    Args:
        group: Capacity group, for example ``train``.
    """

    def __init__(self, *, group: str, **kwargs: Any) -> None:
        kwargs.setdefault("retries", 2)
        kwargs.setdefault("retry_delay", timedelta(seconds=2))
        super().__init__(**kwargs)
        self.group = group
        self._group_id = ""

    def execute(self, context: Any) -> dict[str, str]:
        """Launch, or find what an earlier try launched."""
        from plimsoll.hooks.capacity import run_capacity

        installation = connect()
        run = read_run(context, installation)
        capacity = run_capacity(run, self.group, installation)
        self._group_id = capacity.group_id
        try:
            lease_id = installation.driver.ensure_lease(capacity, reopen=True)
        except UserError as error:
            raise AirflowFailException(f"run={run.run_id} {error}") from error
        self.log.info("run=%s lease %s is launched", run.run_id, lease_id)
        return {"lease_id": lease_id, "group_id": capacity.group_id}

    def on_kill(self) -> None:
        """End what this task launched: a killed setup has no teardown."""
        if not self._group_id:
            return
        installation = connect()
        lease_id = installation.ledger.open_lease(self._group_id)
        if lease_id is not None:
            installation.driver.end_lease(lease_id, reason="killed during launch")


class WaitForLeaseOperator(BaseOperator):
    """Waits until the agent of the group's lease beats. An ordinary task: its failure still runs the teardown.

    Args:
        group: Capacity group.
        timeout: How long capacity may take to come up.
    """

    def __init__(self, *, group: str, timeout: timedelta = timedelta(minutes=15), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.group = group
        self.timeout = timeout

    def execute(self, context: Any) -> str | None:
        """Return at once when the agent is up, else defer."""
        installation = connect()
        gid = group_id(dag_id=context["ti"].dag_id, run_id=context["ti"].run_id, group=self.group)
        lease_id = installation.ledger.open_lease(gid)
        if lease_id is None:
            raise RuntimeError(f"group {gid} has no lease; clear its provision task")
        if installation.store.exists(f"leases/{lease_id}/heartbeat.json"):
            return lease_id
        self.defer(trigger=LeaseReadyTrigger(lease_id=lease_id), method_name="resume", timeout=self.timeout)
        return None

    def resume(self, context: Any, event: dict[str, Any]) -> str:  # noqa: ARG002 - Airflow's context
        """The first heartbeat is there; a lease that ended meanwhile is replaced by the job's own recovery."""
        return str(event["lease_id"])


class ReleaseGpuOperator(BaseOperator):
    """Ends every lease of the group, found by tag and in the ledger; made to be a teardown.

    The group is closed first, so that a recovery that is still running cannot open another lease.

    Args:
        group: Capacity group.
    """

    def __init__(self, *, group: str, **kwargs: Any) -> None:
        kwargs.setdefault("retries", 3)
        kwargs.setdefault("retry_delay", timedelta(seconds=2))
        super().__init__(**kwargs)
        self.group = group

    def execute(self, context: Any) -> dict[str, Any]:
        """Close, release by tag, settle the charges."""
        from include.compute.settlement import settle_lease

        installation = connect()
        ti = context["ti"]
        gid = group_id(dag_id=ti.dag_id, run_id=ti.run_id, group=self.group)
        installation.ledger.close(gid, dag_id=ti.dag_id, run_id=ti.run_id)
        report = installation.engine.release(gid)
        for lease_id in installation.ledger.leases(gid):
            if installation.engine.describe(lease_id).state is not LeaseState.ENDED:
                installation.engine.stop(lease_id, reason="released")
            settle_lease(store=installation.store, ledger=installation.ledger, lease_id=lease_id, reason="released")
        if report.left:
            raise RuntimeError(f"run={ti.run_id} still alive after release: {', '.join(report.left)}")
        self.log.info("run=%s released %s", ti.run_id, report.ended)
        return {"ended": report.ended}
