"""Run one job: submit or re-attach, defer, recover. Every class of job goes through this operator."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, ClassVar

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from include.compute.driver import Capacity, Finished, JobCall, JobInputError
from include.config.job_messages import JobRequest
from include.config.run_record import RunRecord
from include.core.errors import GroupClosedError, UserError
from plimsoll.hooks.installation import Installation, connect
from plimsoll.hooks.run_context import CONTROL, capacity_of, read_plan, read_run, small_json
from plimsoll.operators.requests import Sources, build_inputs
from plimsoll.triggers.job_trigger import JobTrigger


class RunJobOperator(BaseOperator):
    """Runs a job of a kind on a capacity group and returns its result.

    All state is in the ledger and the store: a retry, a clear and a restart of any Airflow component re-attach to the
    running attempt instead of starting another one. Preemptions have a budget of their own and use up no retries.

    Args:
        kind: Kind of job.
        group: Capacity group: ``control``, ``train`` or ``work``.
        item: Distinguishes mapped jobs of one kind, for example the recipe.
        wait_timeout: How long one wait may last before the task fails.
    """

    template_fields: ClassVar[Sequence[str]] = ("item",)

    def __init__(
        self,
        *,
        kind: str,
        group: str = CONTROL,
        item: str = "",
        wait_timeout: timedelta = timedelta(hours=24),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.kind = kind
        self.group = group
        self.item = item
        self.wait_timeout = wait_timeout

    def execute(self, context: Any) -> Any:
        """Submit the job, or find it where an earlier execution left it."""
        return self._move_on(context, lost_lease=None)

    def resume(self, context: Any, event: dict[str, Any]) -> Any:
        """Come back after a wait. Safe to run twice: the event only adds a suspicion, the ledger knows."""
        lost = event.get("lease_id") if event.get("status") == "lost" else None
        return self._move_on(context, lost_lease=lost)

    def _move_on(self, context: Any, *, lost_lease: str | None) -> Any:
        installation = connect()
        run = read_run(context, installation)
        capacity = capacity_of(run, self.group, installation)
        call = self._call(context, run, installation, capacity)
        try:
            step = installation.driver.advance(call, capacity, lost_lease=lost_lease)
        except (JobInputError, GroupClosedError, UserError) as error:
            raise AirflowFailException(f"run={run.run_id} {error}") from error
        if isinstance(step, Finished):
            return self.finish(context, run, installation, step.result)
        nonce = self._sign_in(installation, step.lease_id, shared=capacity.shared)
        self.defer(
            trigger=JobTrigger(
                base=step.base,
                lease_id=step.lease_id,
                lost_after_s=installation.settings.lost_after_s,
                nonce=nonce,
            ),
            method_name="resume",
            timeout=self.wait_timeout,
        )
        return None

    def finish(self, context: Any, run: RunRecord, installation: Installation, result: dict[str, Any]) -> Any:  # noqa: ARG002 - hook for subclasses
        """What the task returns once the job is done."""
        return small_json(result, what=f"result of {self.kind}")

    def inputs(self, context: Any, run: RunRecord, installation: Installation) -> dict[str, Any]:
        """Fields of the request that depend on earlier tasks."""
        ti = context["ti"]
        sources = Sources(
            run=run,
            pull=lambda task_id: ti.xcom_pull(task_ids=task_id),
            item=self.item,
            plan=read_plan(run, installation),
        )
        return build_inputs(self.kind, sources)

    def _call(self, context: Any, run: RunRecord, installation: Installation, capacity: Capacity) -> JobCall:
        def request(attempt: int, base: str) -> dict[str, Any]:
            fields = self.inputs(context, run, installation)
            usd_per_h = capacity.launch("", 0).usd_per_h
            fields["inputs"] = {"usd_per_h": usd_per_h, **fields.get("inputs", {})}
            return JobRequest.model_validate(
                {
                    "kind": self.kind,
                    "workload": run.workload,
                    "run_id": run.run_id,
                    "run_prefix": run.run_prefix,
                    "base": base,
                    "attempt": attempt,
                    "code_version": run.code_version,
                    **fields,
                }
            ).model_dump(mode="json")

        return JobCall(
            dag_id=run.dag_id,
            run_id=run.run_id,
            run_prefix=run.run_prefix,
            kind=self.kind,
            item=self.item,
            request=request,
        )

    @staticmethod
    def _sign_in(installation: Installation, lease_id: str, *, shared: bool) -> str:
        """Write who watches the lease now; an older watch's on_kill sees that somebody came back."""
        if shared:
            return ""
        nonce = uuid.uuid4().hex
        installation.store.put_json(f"leases/{lease_id}/watch.json", {"nonce": nonce})
        return nonce
