"""Cancel a run so that nothing of it costs money any more, and prove it by asking for all that is left.

The order matters: the groups are closed first, so that no recovery can open another lease; then Airflow is told, so
that no task begins; then everything is ended; then everybody is asked again, until nobody names anything. Checkpoints
stay.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from include.compute.cancel_known import GROUPS
from include.compute.cancel_mark import mark_cancelled
from include.compute.cancel_report import CancelReport
from include.compute.damage import DamagedDocumentError, sort_out
from include.compute.ec2 import tags as tag
from include.compute.ec2.launch_log import LaunchLog
from include.compute.ec2.lease_view import VISIBLE_WITHIN_S
from include.compute.ec2.leftovers import UnlistedError, remove
from include.compute.ec2.resource import Resource
from include.compute.holdings import Holdings
from include.compute.reaper import in_order
from include.core.clock import Clock, SystemClock
from include.core.contracts.lease import LeaseState
from include.core.ids import group_id

_log = logging.getLogger("plimsoll.compute")

_REASON = "run cancelled"
_MOST_EVENTS = 10_000
_LOOK_EVERY_S = 2.0


def cancel_run(
    holdings: Holdings,
    *,
    dag_id: str,
    run_id: str,
    mark_failed: Callable[[], str],
    also_alive: Callable[[], Iterable[str]] = tuple,
    within_s: float = 300.0,
    clock: Clock | None = None,
) -> CancelReport:
    """End everything of a run, in whatever state it is; idempotent.

    Args:
        holdings: Where to look and through what to end it.
        dag_id: DAG of the run.
        run_id: The run.
        mark_failed: Marks the run failed in Airflow and says in words what became of it.
        also_alive: Leases that another witness, such as the process table, holds for alive.
        within_s: How long to wait until all of it is gone; instances take minutes to terminate.
        clock: Source of time.
    """
    cancellation = _Cancellation(
        holdings=holdings, dag_id=dag_id, run_id=run_id, also_alive=also_alive, clock=clock or SystemClock()
    )
    cancellation.close_groups()
    airflow = cancellation.tell_airflow(mark_failed)
    left, problems = cancellation.end_all(within_s=within_s)
    return CancelReport(
        dag_id=dag_id,
        run_id=run_id,
        airflow=airflow,
        ended=cancellation.ended,
        removed=tuple(dict.fromkeys(cancellation.removed)),
        left=tuple(left),
        problems=(*cancellation.problems, *problems),
    )


@dataclass(slots=True, kw_only=True)
class _Cancellation:
    """The steps of one cancellation; ``problems`` are those that no later look can mend."""

    holdings: Holdings
    dag_id: str
    run_id: str
    also_alive: Callable[[], Iterable[str]]
    clock: Clock
    groups: set[str] = field(default_factory=set)
    ended: dict[str, str] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    # Why leases of the run cannot be read or ended from here, as of the last look; those of other runs do not matter.
    damaged: dict[str, str] = field(default_factory=dict)
    elsewhere: dict[str, str] = field(default_factory=dict)

    def close_groups(self) -> None:
        """No recovery that still runs can open another lease from here on."""
        self.groups = {group_id(dag_id=self.dag_id, run_id=self.run_id, group=name) for name in GROUPS}
        ledger = self.holdings.ledger
        try:
            mark_cancelled(ledger, dag_id=self.dag_id, run_id=self.run_id)
            found = ledger.events(dag_id=self.dag_id, run_id=self.run_id, kind="intent", limit=_MOST_EVENTS)
            self.groups |= {event.group_id for event in found if event.group_id}
            for group in sorted(self.groups):
                ledger.close(group, dag_id=self.dag_id, run_id=self.run_id)
        except Exception as error:  # noqa: BLE001 - whatever the reason: what is rented is ended all the same
            self.problems.append(f"the groups cannot be closed in the ledger: {error}")

    def tell_airflow(self, mark_failed: Callable[[], str]) -> str:
        """Mark the run failed."""
        try:
            return mark_failed()
        except Exception as error:  # noqa: BLE001 - whatever the reason: what is rented is ended all the same
            self.problems.append(f"the run cannot be marked failed: {error}")
            return "not marked failed"

    def end_all(self, *, within_s: float) -> tuple[list[str], list[str]]:
        """End and ask again, until two looks in a row find nothing, or the time is over.

        Returns:
            What is left and what could not be asked or ended at the last look.
        """
        deadline = self.clock.monotonic() + within_s
        clean = 0
        while True:
            left, problems = self._end_and_look()
            # EC2 may show an instance some time after it was launched, and a launch may have been under way.
            clean = 0 if left or problems else clean + 1
            if clean == 2 or self.clock.monotonic() > deadline:  # noqa: PLR2004 - see the docstring
                return left, problems
            self.clock.sleep(_LOOK_EVERY_S)

    def _end_and_look(self) -> tuple[list[str], list[str]]:
        problems: list[str] = []
        gone = self.holdings.store_answers()
        if gone:
            problems.append(gone)
        else:
            problems += self._each(self._look_elsewhere, lambda _: None)
            for to_end in (self._unfinished, self._alive):
                problems += self._each(to_end, self._end_lease)
        problems += self._each(self._removable, self._remove)
        left: list[str] = []
        witnesses = (self._resources, self.by_process) if gone else self._witnesses()
        for witness in witnesses:
            problems += self._each(witness, lambda item: left.append(str(item)))
        problems += [*self.elsewhere.values(), *self.damaged.values()]
        return list(dict.fromkeys(left)), list(dict.fromkeys(problems))

    def _witnesses(self) -> tuple[Callable[[], Iterable[Any]], ...]:
        return (self._resources, self.by_engine, self.by_launch_log, self.by_ledger, self.by_process)

    def _each(self, items: Callable[[], Iterable[Any]], act: Callable[[Any], None]) -> list[str]:
        """Do something with each; an error with one does not hold up the others."""
        problems = []
        try:
            found = list(items())
        except Exception as error:  # noqa: BLE001 - it is told, and nothing is proved
            return [str(error)]
        for item in found:
            try:
                act(item)
            except Exception as error:  # noqa: BLE001 - it is told, and tried again at the next look
                problems.append(f"{item}: {error}")
        return problems

    def _unfinished(self) -> list[str]:
        """Leases of the ledger that are open or live."""
        alive = {each for each in self._announced() if self._lives(each)}
        return sorted((alive | set(self._open())) - set(self.elsewhere))

    def _look_elsewhere(self) -> list[str]:
        """Leases of the run that these settings do not look at."""
        self.elsewhere = {lease: why for lease, why in self.holdings.elsewhere().items() if self._is_of_a_group(lease)}
        return list(self.elsewhere)

    def _is_of_a_group(self, lease_id: str) -> bool:
        return lease_id.rpartition("-g")[0] in self.groups

    def _alive(self) -> list[str]:
        return [lease_id for lease_id, _ in self._found()]

    def _announced(self) -> list[str]:
        """Every lease that the run ever asked for."""
        return [lease_id for group in sorted(self.groups) for lease_id in self.holdings.ledger.leases(group)]

    def _lives(self, lease_id: str) -> bool:
        try:
            return self.holdings.engine.describe(lease_id).state is not LeaseState.ENDED
        except Exception:  # noqa: BLE001 - its end is tried, and tells why it cannot be; the others are ended too
            return True

    def _removable(self) -> list[Resource]:
        try:
            found = self.holdings.resources()
        except UnlistedError as error:
            # What is not listed is told by the last look; what is listed can be ended already.
            found = error.found
        return in_order(item for item in found if self._is_mine(item))

    def _end_lease(self, lease_id: str) -> None:
        _log.info("cancel: ending lease %s", lease_id)
        self.ended[lease_id] = self.holdings.driver.end_lease(lease_id, reason=_REASON)

    def _remove(self, item: Resource) -> None:
        _log.info("cancel: ending %s", item)
        remove(self.holdings.ec2, item)
        self.removed.append(f"{item.kind} {item.resource_id}")

    def _resources(self) -> list[Resource]:
        """What the run has on EC2 by its tags, also what is about to go."""
        return [item for item in self.holdings.resources() if self._is_mine(item)]

    def _is_mine(self, item: Resource) -> bool:
        names = (item.tags.get(tag.DAG, ""), item.tags.get(tag.RUN, ""))
        return item.tags.get(tag.GROUP) in self.groups or names == (self.dag_id, self.run_id)

    def _found(self) -> list[tuple[str, str]]:
        """Leases of the run that live by the engines, with their state."""
        found, damaged = sort_out(self.holdings.engine.find)
        self.damaged = {lease: why for lease, why in damaged.items() if self._is_of_a_group(lease)}
        return [
            (lease.lease_id, lease.state.value)
            for lease in found
            if lease.state is not LeaseState.ENDED
            and (lease.group_id in self.groups or (lease.dag_id, lease.run_id) == (self.dag_id, self.run_id))
        ]

    def _open(self) -> list[str]:
        entries = self.holdings.ledger.open_leases()
        return [entry.lease_id for entry in entries if (entry.dag_id, entry.run_id) == (self.dag_id, self.run_id)]

    def by_engine(self) -> list[str]:
        """What the engines hold for alive."""
        return [f"lease {lease_id} ({state})" for lease_id, state in self._found()]

    def by_ledger(self) -> list[str]:
        """What the ledger holds for open."""
        return [f"lease {lease_id} (open in the ledger)" for lease_id in self._open()]

    def by_launch_log(self) -> list[str]:
        """Launches that were made a moment ago and whose answer nobody has: EC2 may not show yet what came of them."""
        since = self.clock.now() - timedelta(seconds=VISIBLE_WITHIN_S)
        found = []
        for lease_id in self._announced():
            log = LaunchLog(
                store=self.holdings.store,
                lease_id=lease_id,
                installation=self.holdings.installation,
                clock=self.clock,
            )
            try:
                intent, answer = log.last()
            except DamagedDocumentError as error:
                found.append(f"lease {lease_id} ({error})")
                continue
            if intent is not None and answer is None and datetime.fromisoformat(intent.at) > since:
                found.append(f"lease {lease_id} (a launch without an answer)")
        return found

    def by_process(self) -> list[str]:
        """What the other witness holds for alive."""
        mine = sorted(lease for lease in self.also_alive() if lease.rpartition("-g")[0] in self.groups)
        return [f"lease {lease} (its process lives)" for lease in mine]
