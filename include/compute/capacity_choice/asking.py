"""Put the question of a group together from the ledger and the store, and answer it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from include.compute.capacity_choice.choice import choose_capacity
from include.compute.capacity_choice.past import GroupPast, read_past
from include.compute.capacity_choice.progress import read_progress
from include.compute.capacity_choice.question import Move, Question
from include.compute.job_calls import Capacity
from include.core.store import ObjectStore
from include.ledger.ledger import Ledger


class CapacityAsker:
    """Asks for a group's next move.

    Args:
        store: The object store.
        ledger: The ledger.
        capacity_wait_s: Seconds that a group may wait for capacity.
        preemption_budget: Losses that a job may have.
    """

    def __init__(self, *, store: ObjectStore, ledger: Ledger, capacity_wait_s: float, preemption_budget: int) -> None:
        self._store = store
        self._ledger = ledger
        self.capacity_wait_s = capacity_wait_s
        self._preemption_budget = preemption_budget

    def past(self, capacity: Capacity) -> GroupPast:
        """What the group has met."""
        return read_past(self._ledger, group_id=capacity.group_id, dag_id=capacity.dag_id, run_id=capacity.run_id)

    def move(self, capacity: Capacity, *, now: datetime) -> Move:
        """The next move of a group that holds nothing; what has nothing to choose is launched as it is."""
        question = self.question(capacity, now=now)
        return Move(candidates=capacity.candidates) if question is None else choose_capacity(question)

    def question(self, capacity: Capacity, *, now: datetime, held: str = "") -> Question | None:
        """Everything that the next move rests on, None where there is nothing to choose."""
        terms = capacity.terms
        if terms is None or not capacity.candidates:
            return None
        past = self.past(capacity)
        now_s = now.timestamp()
        names = {"dag_id": capacity.dag_id, "run_id": capacity.run_id, "job": terms.job}
        waited = 0.0 if past.refused_since_s is None else now_s - past.refused_since_s
        return Question(
            candidates=capacity.candidates,
            terms=terms,
            now_s=now_s,
            started_s=terms.started_s or past.first_s or now_s,
            done=read_progress(self._store, self._ledger, **names).done,
            past=past.events,
            usd_left=self.usd_left(capacity),
            preemptions_left=self._preemption_budget - self._ledger.preemptions(**names),
            wait_left_s=self.capacity_wait_s - waited,
            held=held,
        )

    def usd_left(self, capacity: Capacity) -> Decimal | None:
        """What the budget leaves, None without one; never below 0."""
        if capacity.budget_usd is None:
            return None
        totals = self._ledger.totals(dag_id=capacity.dag_id, run_id=capacity.run_id)
        return max(capacity.budget_usd - totals.known_part.usd, Decimal(0))

    def with_limits_of_the_rest(self, capacity: Capacity) -> Capacity:
        """The capacity whose expected spend is that of the work which is left: what is done is paid for already."""
        limits, terms = capacity.limits, capacity.terms
        if limits is None or limits.commit_usd is None or terms is None:
            return capacity
        done = read_progress(
            self._store, self._ledger, dag_id=capacity.dag_id, run_id=capacity.run_id, job=terms.job
        ).done
        rest = limits.commit_usd * Decimal(repr(1.0 - done))
        return replace(capacity, limits=replace(limits, commit_usd=rest))
