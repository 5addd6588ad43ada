"""Capacity of a run: launch as a setup, release as its teardown."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from include.config.run_record import RunRecord
from include.core.contracts.lease import LeaseState
from include.core.errors import UserError
from include.core.ids import group_id
from plimsoll.hooks.capacity_shown import show_delay, show_lease
from plimsoll.hooks.installation import Installation, connect
from plimsoll.hooks.rented import Rented
from plimsoll.hooks.run_context import read_run
from plimsoll.links.instance_links import INSTANCE_LINKS
from plimsoll.notifiers.capacity_notifier import send_alerts


class ProvisionGpuOperator(BaseOperator):
    """Launches the lease of a group; quick, idempotent, and made to be a setup.

    The intent is in the ledger before the engine is called; a retry finds it and launches with the same token. Where
    there is no capacity, or a team's quota makes the lease wait its turn, the task succeeds all the same, and
    `WaitForLeaseOperator` goes on asking: a setup that waited would hold back its teardown.

    When the task is killed while it runs, or fails for good, its teardown would never run, so it ends its own lease.

    Args:
        group: Capacity group, for example ``train``.
    """

    operator_extra_links = INSTANCE_LINKS

    def __init__(self, *, group: str, **kwargs: Any) -> None:
        kwargs.setdefault("retries", 2)
        kwargs.setdefault("retry_delay", timedelta(seconds=2))
        super().__init__(**kwargs)
        self.group = group
        self.rented: Rented | None = None
        self._group_id = ""

    def execute(self, context: Any) -> dict[str, Any]:
        """Launch, or find what an earlier try launched.

        Returns:
            The group with ``state`` ``launched`` and its lease, or ``waiting`` with the reason and the place in the
            queue.
        """
        from plimsoll.hooks.capacity import run_capacity

        installation = connect()
        run = read_run(context, installation)
        self._refuse_if_cancelled(context, run, installation)
        capacity = run_capacity(run, self.group, installation)
        self._group_id = capacity.group_id
        try:
            lease = installation.driver.ensure_lease(capacity, reopen=True)
        except Exception as error:
            ti = context["ti"]
            if isinstance(error, UserError) or ti.try_number > ti.max_tries:
                self._end_own_lease("its launch failed")
            if isinstance(error, UserError):
                raise AirflowFailException(f"run={run.run_id} {error}") from error
            raise
        finally:
            send_alerts(installation, dag_id=run.dag_id, run_id=run.run_id)
        if not isinstance(lease, str):
            return {"group_id": capacity.group_id, **show_delay(context, installation, capacity.group_id, lease)}
        self.log.info("run=%s lease %s is launched", run.run_id, lease)
        self.rented = show_lease(context, installation, lease)
        return {"group_id": capacity.group_id, "state": "launched", "lease_id": lease}

    @staticmethod
    def _refuse_if_cancelled(context: Any, run: RunRecord, installation: Installation) -> None:
        """A setup may reopen its group, so one that is tried again must not bring a cancelled run back."""
        from include.compute.cancel_mark import was_cancelled

        began = getattr(context["dag_run"], "start_date", None)
        if was_cancelled(installation.ledger, dag_id=run.dag_id, run_id=run.run_id, since=began):
            raise AirflowFailException(f"run={run.run_id} was cancelled; clear the run to begin it anew")

    def on_kill(self) -> None:
        """End what this task launched: a killed setup has no teardown."""
        if self._group_id:
            self._end_own_lease("killed during launch")

    def _end_own_lease(self, reason: str) -> None:
        """As well as it can be done: what led here is what the task tells."""
        try:
            installation = connect()
            lease_id = installation.ledger.open_lease(self._group_id)
            if lease_id is not None:
                installation.driver.end_lease(lease_id, reason=reason)
        except Exception:
            self.log.exception("the lease of group %s could not be ended; the reaper will", self._group_id)


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
        installation = connect()
        try:
            return self._release(context["ti"], installation)
        finally:
            send_alerts(installation, dag_id=context["ti"].dag_id, run_id=context["ti"].run_id)

    def _release(self, ti: Any, installation: Installation) -> dict[str, Any]:
        from include.compute.settlement import settle_lease

        gid = group_id(dag_id=ti.dag_id, run_id=ti.run_id, group=self.group)
        installation.ledger.close(gid, dag_id=ti.dag_id, run_id=ti.run_id)
        report = installation.engine.release(gid)
        for lease_id in installation.ledger.leases(gid):
            if lease_id not in report.ended and self._was_never_launched(installation, lease_id):
                continue
            if installation.engine.describe(lease_id).state is not LeaseState.ENDED:
                installation.engine.stop(lease_id, reason="released")
            settle_lease(
                store=installation.store,
                ledger=installation.ledger,
                lease_id=lease_id,
                reason="released",
                lease=installation.engine.describe(lease_id),
            )
        if report.left:
            raise RuntimeError(f"run={ti.run_id} still alive after release: {', '.join(report.left)}")
        self.log.info("run=%s released %s", ti.run_id, report.ended)
        return {"ended": report.ended}

    @staticmethod
    def _was_never_launched(installation: Installation, lease_id: str) -> bool:
        """Whether the lease found no capacity and was given up: one that waits for an hour leaves many such."""
        record = installation.ledger.lease_record(lease_id)
        return record is not None and record.launched_at is None and record.ended_at is not None
