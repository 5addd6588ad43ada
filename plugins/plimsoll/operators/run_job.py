"""Run one job: submit or re-attach, defer, recover. Every class of job goes through this operator."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from include.config.run_record import RunRecord
from include.core.errors import GroupClosedError, UserError
from include.core.ids import group_id
from plimsoll.hooks.budget_watch import BUDGET_MARKS
from plimsoll.hooks.capacity_shown import show_delay, show_lease
from plimsoll.hooks.installation import Installation, connect
from plimsoll.hooks.rented import Rented
from plimsoll.hooks.run_context import CONTROL, read_run, small_json
from plimsoll.hooks.short_wait import exits_within, log_lines
from plimsoll.links.instance_links import INSTANCE_LINKS
from plimsoll.links.run_links import DataDocsLink
from plimsoll.notifiers.capacity_notifier import send_alerts
from plimsoll.triggers.capacity_trigger import CapacityTrigger
from plimsoll.triggers.job_trigger import JobTrigger

if TYPE_CHECKING:
    from include.compute.job_calls import Delayed, Finished, Waiting


class RunJobOperator(BaseOperator):
    """Runs a job of a kind on a capacity group and returns its result.

    All state is in the ledger and the store: a retry, a clear and a restart of any Airflow component re-attach to the
    running attempt instead of starting another one. Preemptions have a budget of their own and use up no retries.

    Args:
        kind: Kind of job.
        group: Capacity group: ``control``, ``train`` or ``work``.
        item: Distinguishes mapped jobs of one kind, for example the recipe.
        wait_timeout: How long one wait may last before the task fails.
        patience: How long the task itself waits before it defers. Only on the control lease, whose jobs are short and
            which no watch ever stops: a task that is killed while it waits leaves nothing behind that costs money.
        boot_timeout: How long a rented machine may take from its launch to its first heartbeat before it counts as
            lost.
    """

    template_fields: ClassVar[Sequence[str]] = ("item",)
    operator_extra_links = (*INSTANCE_LINKS, DataDocsLink())

    def __init__(
        self,
        *,
        kind: str,
        group: str = CONTROL,
        item: str = "",
        wait_timeout: timedelta = timedelta(hours=24),
        patience: timedelta = timedelta(seconds=10),
        boot_timeout: timedelta = timedelta(minutes=15),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.kind = kind
        self.group = group
        self.item = item
        self.wait_timeout = wait_timeout
        self.patience = patience
        self.boot_timeout = boot_timeout
        self.rented: Rented | None = None
        self._event: dict[str, Any] = {}

    def execute(self, context: Any) -> Any:
        """Submit the job, or find it where an earlier execution left it."""
        return self._move_on(context, lost_lease=None)

    def resume(self, context: Any, event: dict[str, Any]) -> Any:
        """Come back after a wait. Safe to run twice: the event only adds a suspicion, store and ledger know."""
        self._event = event
        lost = event.get("lease_id") if event.get("status") == "lost" else None
        return self._move_on(context, lost_lease=lost)

    def _move_on(self, context: Any, *, lost_lease: str | None) -> Any:
        installation = connect()
        run = read_run(context, installation)
        try:
            self._mind_budget(run, installation)
            return self._step(context, run, installation, lost_lease)
        finally:
            send_alerts(installation, dag_id=run.dag_id, run_id=run.run_id)

    def _mind_budget(self, run: RunRecord, installation: Installation) -> None:
        """Act on a mark that the spend has crossed; the driver then finds out what becomes of the job."""
        mark = self._event.get("status", "")
        if mark in BUDGET_MARKS:
            from plimsoll.hooks.lease_watch import budget_watch

            watch = budget_watch(run, self.group, self._event["lease_id"], installation)
            watch.act(mark, self._event["spend_usd"])

    def _step(self, context: Any, run: RunRecord, installation: Installation, lost_lease: str | None) -> Any:
        # Imported by the task and not by the parse of its DAG file: this brings the ledger and the wire format of jobs.
        from include.compute.job_calls import Delayed, Finished, Waiting

        step = self._advance(context, run, installation, lost_lease)
        if isinstance(step, Waiting) and self._ended_meanwhile(installation, step.base):
            step = self._advance(context, run, installation, None)
        if isinstance(step, Finished):
            return self.finish(context, run, installation, step.result)
        if isinstance(step, Delayed):
            gid = group_id(dag_id=run.dag_id, run_id=run.run_id, group=self.group)
            shown = show_delay(context, installation, gid, step)
            trigger = CapacityTrigger(retry_after_s=step.retry_after_s, reason=shown["reason"])
            self.defer(trigger=trigger, method_name="resume")
            return None
        self.defer(
            trigger=self._watch(context, run, installation, step), method_name="resume", timeout=self.wait_timeout
        )
        return None

    def _watch(self, context: Any, run: RunRecord, installation: Installation, step: Waiting) -> JobTrigger:
        """A watch over the attempt, told of everything that concerns its lease."""
        from plimsoll.hooks.lease_watch import lease_terms

        terms: dict[str, Any] = {}
        if self.group != CONTROL:
            self.rented = show_lease(context, installation, step.lease_id)
            boot_s = self.boot_timeout.total_seconds()
            terms = lease_terms(run, self.group, step.lease_id, installation, rented=self.rented, boot_s=boot_s)
        return JobTrigger(
            base=step.base,
            lease_id=step.lease_id,
            lost_after_s=installation.settings.lost_after_s,
            nonce=self._sign_in(installation, step.lease_id),
            look_again_s=step.look_again_s,
            rebalance_seen=self._event.get("rebalance_seen"),
            printed=self._event.get("printed", 0) if self._event.get("base") == step.base else 0,
            **terms,
        )

    def _advance(
        self, context: Any, run: RunRecord, installation: Installation, lost_lease: str | None
    ) -> Finished | Waiting | Delayed:
        from plimsoll.hooks.job_submission import submit_or_reattach

        try:
            return submit_or_reattach(
                installation=installation,
                run=run,
                kind=self.kind,
                item=self.item,
                group=self.group,
                inputs=lambda: self.inputs(context, run, installation),
                lost_lease=lost_lease,
            )
        except (GroupClosedError, UserError) as error:
            raise AirflowFailException(f"run={run.run_id} {error}") from error

    def _ended_meanwhile(self, installation: Installation, base: str) -> bool:
        """Give a short job the time to end; its log then goes into the task's own."""
        seconds = self.patience.total_seconds() if self.group == CONTROL else 0.0
        if not exits_within(installation.store, base, seconds=seconds):
            return False
        for line in log_lines(installation.store, base):
            self.log.info("%s", line)
        return True

    def finish(self, context: Any, run: RunRecord, installation: Installation, result: dict[str, Any]) -> Any:  # noqa: ARG002 - hook for subclasses
        """What the task returns once the job is done."""
        return small_json(result, what=f"result of {self.kind}")

    def inputs(self, context: Any, run: RunRecord, installation: Installation) -> dict[str, Any]:
        """Fields of the request that depend on earlier tasks."""
        from plimsoll.hooks.job_submission import upstream_inputs

        return upstream_inputs(context["ti"], kind=self.kind, item=self.item, run=run, installation=installation)

    def _sign_in(self, installation: Installation, lease_id: str) -> str:
        """Write who watches the lease now; an older watch's on_kill sees that somebody came back.

        The shared lease serves other runs too, so no watch may ever stop it: it gets no nonce.
        """
        if self.group == CONTROL:
            return ""
        nonce = uuid.uuid4().hex
        installation.store.put_json(f"leases/{lease_id}/watch.json", {"nonce": nonce})
        return nonce
