"""One pass of the reaper: look, judge, end, report. The same pass runs in the DAG and from the terminal."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

from include.compute.ec2.leftovers import remove
from include.compute.ec2.resource import ENDING, Kind, Resource
from include.compute.holdings import Found, Holdings, look
from include.compute.lease_keys import LeaseKeys
from include.compute.reap_plan import LeaseFacts, ReapLimits, ReapPlan, Verdict, plan_reaping
from include.compute.reap_report import ReapReport
from include.core.clock import Clock, SystemClock, iso
from include.core.errors import UserError
from include.ledger.alerts import record_alert

_log = logging.getLogger("plimsoll.compute")

RunState = Callable[[str, str], str | None]
_ORDER = tuple(Kind)


@dataclass(slots=True)
class _Pass:
    """The acts of one pass and what became of them."""

    holdings: Holdings
    found: Found
    dry_run: bool
    removed: list[str]
    problems: list[str]

    def carry_out(self, verdict: Verdict) -> None:
        """End a lease and what it has; an error with one part of it does not hold up the others."""
        lease = verdict.lease
        if verdict.whole:
            self._act(f"lease {lease.lease_id}", verdict, partial(self._end_lease, verdict))
        for item in in_order(verdict.resources):
            self._act(f"{item} of {lease.lease_id}", verdict, partial(self._remove, item))
        if verdict.alarming and not self.dry_run and not self.found.ledger_gone:
            self._alert(verdict)

    def _act(self, what: str, verdict: Verdict, act: Callable[[], None]) -> None:
        _log.warning("reaper: %s: %s%s", what, verdict.why, " (dry run)" if self.dry_run else "")
        if self.dry_run:
            return
        try:
            act()
        except Exception as error:  # noqa: BLE001 - the rest is ended all the same; the pass fails at its end
            _log.error("reaper: %s cannot be ended: %s", what, error)
            self.problems.append(f"{what} cannot be ended: {error}")

    def _end_lease(self, verdict: Verdict) -> None:
        lease, reason = verdict.lease, f"reaper: {verdict.why}"
        if self.found.store_gone:
            return  # what it has on EC2 is ended, and a later pass settles it
        if lease.unreadable:
            self._forbid_launch(lease.lease_id, reason)
            return
        if self.found.ledger_gone:
            self.holdings.engine.stop(lease.lease_id, reason=reason)
        elif lease.known:
            self.holdings.driver.end_lease(lease.lease_id, reason=reason)
        else:
            # Nobody but its tags knows it. Should it have been launched late: nobody launches it again.
            self.holdings.store.create_json(LeaseKeys(lease.lease_id).stop, {"reason": reason})

    def _forbid_launch(self, lease_id: str, reason: str) -> None:
        """Its documents cannot be read, so that it is not settled; nobody launches it again."""
        try:
            self.holdings.store.create_json(LeaseKeys(lease_id).stop, {"reason": reason})
        except UserError:  # a tag that is no lease: no launch can be of that name
            _log.warning("reaper: %r is the name of no lease", lease_id)

    def _remove(self, item: Resource) -> None:
        remove(self.holdings.ec2, item)
        self.removed.append(str(item))

    def _alert(self, verdict: Verdict) -> None:
        lease = verdict.lease
        parts = [str(item) for item in verdict.resources]
        what = f"lease {lease.lease_id}" if verdict.whole else " and ".join(parts)
        owner = f"run {lease.run_id} of {lease.dag_id}" if lease.run_id else "no run"
        key = lease.lease_id if verdict.whole else f"{lease.lease_id}: {what}"
        message = f"the reaper ended {what} of {owner}: {verdict.why}"
        try:
            record_alert(
                self.holdings.ledger,
                kind="reaper",
                dag_id=lease.dag_id,
                run_id=lease.run_id,
                key=key,
                message=message,
            )
        except Exception as error:  # noqa: BLE001 - a ledger that cannot be written stops no leak from being ended
            self.problems.append(f"no alert could be recorded: {error}")


def in_order(resources: Iterable[Resource]) -> list[Resource]:
    """What can be ended now, what could make new ones first; a thing that hangs on an instance goes with it."""
    loose = (Kind.SPOT_REQUEST, Kind.ADDRESS)
    now = [item for item in resources if item.state not in ENDING and (item.kind in loose or not item.attached_to)]
    return sorted(now, key=lambda item: _ORDER.index(item.kind))


def reap(
    holdings: Holdings,
    *,
    run_state: RunState,
    limits: ReapLimits,
    dry_run: bool = False,
    clock: Clock | None = None,
) -> ReapReport:
    """End what has no right to be there; idempotent.

    Args:
        holdings: Where to look.
        run_state: State of a run in Airflow's words, ``deleted`` for one that Airflow has not got, None where it cannot
            be read.
        limits: What this pass may do.
        dry_run: Only report.
        clock: Clock of the pass.

    Returns:
        What was done and what was not; `ReapReport.failed` says whether all of it went well.

    Raises:
        UnlistedError: EC2 does not say which instances there are; nothing was done.
        StoreError: The store is gone and nothing is rented on EC2.
    """
    moment = (clock or SystemClock()).now()
    found = look(holdings, now=moment.timestamp())
    plan = _plan(found, run_state=run_state, limits=limits, now=moment.timestamp())
    acts = _Pass(holdings, found, dry_run, [], list(found.problems))
    if plan.refused:
        _log.error("reaper: refused: %s", plan.refused)
    else:
        for verdict in plan.end:
            acts.carry_out(verdict)
    return ReapReport(
        at=iso(moment),
        dry_run=dry_run,
        end=plan.end,
        keep=plan.keep,
        refused=plan.refused,
        removed=tuple(acts.removed),
        problems=tuple(acts.problems),
    )


def _plan(found: Found, *, run_state: RunState, limits: ReapLimits, now: float) -> ReapPlan:
    if found.blind:
        limits = replace(limits, expired_only=True)
    runs: dict[tuple[str, str], str | None] = {}
    for lease in found.leases:
        key = (lease.dag_id, lease.run_id)
        if lease.run_id and key not in runs and not limits.expired_only:
            runs[key] = run_state(*key)
    return plan_reaping(_sorted(found.leases), runs=runs, now=now, limits=limits)


def _sorted(leases: Iterable[LeaseFacts]) -> list[LeaseFacts]:
    return sorted(leases, key=lambda lease: (lease.group_id, lease.generation or 0, lease.lease_id))
