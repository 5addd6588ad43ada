"""The budget of a run while one of its leases is watched: the second layer, should the agent's own limit not hold.

A trigger compares, an operator acts: it records the alert, and at the whole budget asks the agent to let its job
commit a checkpoint and to leave. What the agent makes of it, and what becomes of the job, the driver finds out.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypedDict

from include.core.clock import SystemClock, iso
from include.ledger.alerts import has_alert, record_alert
from plimsoll.hooks.installation import Installation

if TYPE_CHECKING:
    from include.compute.job_calls import Capacity

BUDGET_MARKS = ("budget_80", "budget_reached")
_SHARE = Decimal("0.8")
# Between the end of the grace and the last heartbeat of an agent that does as it was told.
_MARGIN_S = 30.0


class Budget(TypedDict):
    """What a trigger is told of the budget, in a form that its row takes.

    Attributes:
        limit_usd: Budget of the run.
        spent_usd: What the run had spent besides the watched lease when the watch began.
        warned: Whether four fifths were reported already.
    """

    limit_usd: str
    spent_usd: str
    warned: bool


def crossed(budget: Budget | None, lease_spend_usd: str | None) -> str:
    """Which mark the spend has crossed: ``budget_80``, ``budget_reached``, or empty.

    Args:
        budget: What the trigger knows; None without a budget.
        lease_spend_usd: Spend of the lease by its heartbeat; unknown crosses nothing.
    """
    if budget is None or lease_spend_usd is None:
        return ""
    spent, limit = Decimal(budget["spent_usd"]) + Decimal(lease_spend_usd), Decimal(budget["limit_usd"])
    if spent >= limit:
        return "budget_reached"
    return "budget_80" if spent >= limit * _SHARE and not budget["warned"] else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetWatch:
    """The budget of one run as an operator sees it.

    Args:
        installation: Clients of this process.
        capacity: The capacity that the run's job is on.
        lease_id: The lease that is watched.
    """

    installation: Installation
    capacity: Capacity
    lease_id: str

    @property
    def limit_usd(self) -> Decimal | None:
        """The run's budget, None without one, and on capacity that runs share."""
        limits = self.capacity.limits
        return None if self.capacity.shared or limits is None else limits.budget_usd

    def for_trigger(self) -> Budget | None:
        """What to watch for; None without a budget, and once the agent was asked to leave."""
        limit = self.limit_usd
        if limit is None or self.leave_by() is not None:
            return None
        warned = has_alert(self.installation.ledger, kind="budget_80", key=_plain(limit), **self._run)
        return {"limit_usd": _plain(limit), "spent_usd": _plain(self._spent_elsewhere()), "warned": warned}

    def act(self, mark: str, spend_usd: str) -> None:
        """Do what a crossed mark asks for.

        Args:
            mark: ``budget_80`` or ``budget_reached``.
            spend_usd: Spend of the lease by its heartbeat.
        """
        limit = self.limit_usd
        if limit is None:
            return
        spent = self._spent_elsewhere() + Decimal(spend_usd)
        if mark == "budget_reached" and spent >= limit:
            self._ask_to_leave()
            # The driver tells of a lease that ended for its budget under the same key: people hear of it once.
            key, what = self.lease_id, "the running job commits a checkpoint and stops"
        else:
            mark, key, what = "budget_80", _plain(limit), "the run stops at the whole"
        shown = f"{spent:.4f}" if spent >= 1 else f"{spent:.3g}"
        message = f"{shown} of {_plain(limit)} USD are spent; {what}"
        record_alert(self.installation.ledger, kind=mark, key=key, message=message, **self._run)

    def leave_by(self) -> float | None:
        """POSIX seconds by which an agent that was asked to leave has done so; None unless it was asked."""
        order = self.installation.store.get_json(self._stop_key) or {}
        if "at" not in order:
            return None
        return datetime.fromisoformat(order["at"]).timestamp() + float(order.get("grace_s") or 0.0) + _MARGIN_S

    def _ask_to_leave(self) -> None:
        from include.compute.lifeline import LONGEST_GRACE_S

        order = {"by": "budget watch", "reason": "budget", "grace_s": LONGEST_GRACE_S, "at": iso(SystemClock().now())}
        # An order to leave that is there already stays: it may be a stricter one.
        self.installation.store.create_json(self._stop_key, order)

    def _spent_elsewhere(self) -> Decimal:
        """Charges of the run, and what its other open leases say of themselves; what nobody knows counts nothing."""
        ledger, store = self.installation.ledger, self.installation.store
        others = [
            store.get_json(f"leases/{entry.lease_id}/heartbeat.json") or {}
            for entry in ledger.open_leases()
            if (entry.dag_id, entry.run_id) == (self.capacity.dag_id, self.capacity.run_id)
            and entry.lease_id != self.lease_id
        ]
        running = sum((Decimal(beat["spend_usd"]) for beat in others if beat.get("spend_usd")), Decimal(0))
        return ledger.totals(**self._run).known_part.usd + running

    @property
    def _run(self) -> dict[str, Any]:
        return {"dag_id": self.capacity.dag_id, "run_id": self.capacity.run_id}

    @property
    def _stop_key(self) -> str:
        return f"leases/{self.lease_id}/stop.json"


def _plain(usd: Decimal) -> str:
    return format(usd.normalize(), "f")
