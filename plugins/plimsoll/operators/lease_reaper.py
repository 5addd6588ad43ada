"""End what is rented and has no right to be there: the layer that works when all others were killed."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, ClassVar

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowRuntimeError

from plimsoll.hooks.holdings import holdings_of
from plimsoll.hooks.installation import connect
from plimsoll.hooks.run_context import small_json, word_of
from plimsoll.notifiers.capacity_notifier import send_alerts

_DELETED = "deleted"
_NOT_FOUND = 404


class LeaseReaperOperator(BaseOperator):
    """Ends leases and leftovers on EC2 that are past their expiry or whose run is over; keeps what it cannot judge.

    It finds them by the engines, by EC2's tags and in the ledger, each without the others. What carries no tag of this
    installation is never touched. See `include.compute.reap_plan` for the rules.

    Args:
        cap: Most leases one pass may end; more is refused as a whole, since it smells of a wrong answer somewhere.
        dry_run: Only report; ``true`` as a word is as good.
    """

    template_fields: ClassVar[Sequence[str]] = ("dry_run", "cap")

    def __init__(self, *, cap: int | str = 50, dry_run: bool | str = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.cap = cap
        self.dry_run = dry_run

    def execute(self, context: Any) -> dict[str, Any]:
        """Look, judge, end, settle; returns the report.

        Raises:
            RuntimeError: Something could not be asked or ended, or the cap was passed; what could be done is done.
        """
        from include.compute.reap_plan import ReapLimits
        from include.compute.reaper import reap

        installation = connect()
        report = reap(
            holdings_of(installation),
            run_state=functools.partial(self._run_state, context["ti"]),
            limits=ReapLimits(cap=int(self.cap)),
            dry_run=str(self.dry_run).lower() == "true",
        )
        self.log.info("what is rented:\n%s", report.table())
        # Of all runs: this task also sends what the tasks of a run could not.
        send_alerts(installation)
        if report.failed:
            raise RuntimeError(report.failed)
        return small_json(report.to_json(), what="reaper")

    def _run_state(self, ti: Any, dag_id: str, run_id: str) -> str | None:
        """What Airflow says of a run; None when it says nothing that can be relied on."""
        try:
            return word_of(ti.get_dagrun_state(dag_id, run_id))
        except AirflowRuntimeError as error:
            if (error.error.detail or {}).get("status_code") == _NOT_FOUND:
                return _DELETED
            reason: Exception = error
        except Exception as error:  # noqa: BLE001 - unreadable means: leave it alone, whatever the reason
            reason = error
        self.log.warning("cannot read the state of %s %s, leaving its capacity: %s", dag_id, run_id, reason)
        return None
