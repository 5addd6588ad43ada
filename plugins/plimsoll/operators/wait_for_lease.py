"""Wait for capacity, then for the machine to come up. An ordinary task: its failure still runs the teardown."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from include.config.run_record import RunRecord
from include.core.clock import SystemClock
from include.core.errors import GroupClosedError, UserError
from include.ledger.alerts import record_alert
from plimsoll.hooks.capacity_shown import FOUND_DEAD, NEVER_BEAT, boots_in_vain, show_delay, show_lease
from plimsoll.hooks.installation import Installation, connect
from plimsoll.hooks.rented import Rented
from plimsoll.hooks.run_context import read_run
from plimsoll.links.instance_links import INSTANCE_LINKS
from plimsoll.notifiers.capacity_notifier import send_alerts
from plimsoll.triggers.capacity_trigger import CapacityTrigger
from plimsoll.triggers.lease_ready_trigger import LeaseReadyTrigger

if TYPE_CHECKING:
    from include.compute.job_calls import Capacity, Delayed


class WaitForLeaseOperator(BaseOperator):
    """Waits until the agent of the group's lease beats, and returns the lease.

    While there is no capacity it asks again and again, from where `ProvisionGpuOperator` left it; how long is the
    installation's `capacity_wait_s`. The machine's own time to come up counts from its launch. A lease whose machine
    goes away meanwhile, or never comes up, is ended and replaced, a few times.

    Args:
        group: Capacity group.
        timeout: How long a machine may take from its launch to the first heartbeat of its agent.
        launches: How many machines in a row may fail to come up before the task does.
    """

    operator_extra_links = INSTANCE_LINKS

    def __init__(
        self, *, group: str, timeout: timedelta = timedelta(minutes=15), launches: int = 3, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.group = group
        self.timeout = timeout
        self.launches = launches
        self.rented: Rented | None = None

    def execute(self, context: Any) -> str | None:
        """Return at once when the agent is up, else defer."""
        return self._move_on(context, {})

    def resume(self, context: Any, event: dict[str, Any]) -> str | None:
        """Come back after a wait. Safe to run twice: the event only adds a suspicion, store and ledger know."""
        return self._move_on(context, event)

    def _move_on(self, context: Any, event: dict[str, Any]) -> str | None:
        from plimsoll.hooks.capacity import run_capacity

        installation = connect()
        run = read_run(context, installation)
        capacity = run_capacity(run, self.group, installation)
        try:
            if event.get("status") == "gone":
                self._give_up_machine(installation, capacity, event["lease_id"], FOUND_DEAD, why=event["why"])
            return self._claim(context, run, installation, capacity)
        except GroupClosedError as error:
            raise AirflowFailException(f"run={run.run_id} {error}; clear its provision task") from error
        except UserError as error:
            raise AirflowFailException(f"run={run.run_id} {error}") from error
        finally:
            send_alerts(installation, dag_id=run.dag_id, run_id=run.run_id)

    def _claim(self, context: Any, run: RunRecord, installation: Installation, capacity: Capacity) -> str | None:
        from plimsoll.hooks.lease_watch import launched_at

        while (vain := boots_in_vain(installation, capacity)) < self.launches:
            lease = installation.driver.ensure_lease(capacity)
            if not isinstance(lease, str):
                self._wait_for_capacity(lease, show_delay(context, installation, capacity.group_id, lease))
                return None
            self.rented = show_lease(context, installation, lease)
            if installation.store.exists(f"leases/{lease}/heartbeat.json"):
                # One that ended meanwhile is replaced by the job's own recovery.
                return lease
            until = launched_at(installation, lease) + self.timeout.total_seconds()
            if SystemClock().now().timestamp() < until:
                self._wait_for_machine(lease, until)
                return None
            self._give_up_machine(installation, capacity, lease, NEVER_BEAT, why=f"no heartbeat in {self.timeout}")
        raise AirflowFailException(
            f"run={run.run_id} {vain} machines in a row did not come up; look at the instance's log, then clear the "
            "provision task"
        )

    def _wait_for_capacity(self, delayed: Delayed, shown: dict[str, Any]) -> None:
        trigger = CapacityTrigger(retry_after_s=delayed.retry_after_s, reason=shown["reason"])
        self.defer(trigger=trigger, method_name="resume")

    def _wait_for_machine(self, lease_id: str, until: float) -> None:
        trigger = LeaseReadyTrigger(
            lease_id=lease_id,
            until=until,
            boot_s=self.timeout.total_seconds(),
            instances=None if self.rented is None else self.rented.instances,
        )
        self.defer(trigger=trigger, method_name="resume")

    def _give_up_machine(
        self, installation: Installation, capacity: Capacity, lease_id: str, reason: str, *, why: str
    ) -> None:
        """End a lease that did not come up, unless its agent has just done so or somebody else has ended it."""
        beats = installation.store.exists(f"leases/{lease_id}/heartbeat.json")
        if beats or installation.ledger.open_lease(capacity.group_id) != lease_id:
            return
        self.log.warning("lease %s did not come up (%s): ending it", lease_id, why)
        record_alert(
            installation.ledger,
            kind="interruption",
            dag_id=capacity.dag_id,
            run_id=capacity.run_id,
            key=lease_id,
            message=f"the machine of lease {lease_id} did not come up: {why}",
        )
        installation.driver.end_lease(lease_id, reason=reason)
