"""Give up running capacity where a move pays: a stop mark with a grace; the job's recovery does the rest."""

from __future__ import annotations

import logging

from include.compute.capacity_choice.asking import CapacityAsker
from include.compute.capacity_choice.moving import NOTICE_GRACE_S, leave_on_demand, leave_on_rebalance, look_again_s
from include.compute.capacity_choice.question import Question
from include.compute.job_calls import Capacity
from include.compute.lease_keys import LeaseKeys
from include.core.clock import Clock, iso
from include.core.contracts.lease import JobPhase, JobState
from include.core.contracts.offer import PurchaseOption
from include.core.store import ObjectStore
from include.ledger.ledger import Ledger

_log = logging.getLogger(__name__)


class Mover:
    """Looks at whether capacity that runs is worth keeping.

    Args:
        store: The object store.
        ledger: The ledger.
        asker: Knows the group's question.
        clock: Source of time.
    """

    def __init__(self, *, store: ObjectStore, ledger: Ledger, asker: CapacityAsker, clock: Clock) -> None:
        self._store = store
        self._ledger = ledger
        self._asker = asker
        self._clock = clock

    def consider(self, capacity: Capacity, lease_id: str, state: JobState) -> float | None:
        """Tell the agent to leave at its next checkpoint where that pays.

        Returns:
            Seconds until the next look, None where nothing but the job's own news can change anything.
        """
        if state.phase is not JobPhase.RUNNING or capacity.terms is None or not capacity.candidates:
            return None
        held = str((self._ledger.launch_details(lease_id) or {}).get("purchase", ""))
        question = self._asker.question(capacity, now=self._clock.now(), held=held)
        if question is None:
            return None
        if why := self._why(question, lease_id):
            _log.info("lease %s is left: %s", lease_id, why)
            order = {"reason": f"moved: {why}", "grace_s": NOTICE_GRACE_S, "at": iso(self._clock.now())}
            self._store.create_json(LeaseKeys(lease_id).stop, order)
            return None
        return look_again_s(question)

    def _why(self, question: Question, lease_id: str) -> str:
        if question.held == PurchaseOption.ON_DEMAND.value:
            return leave_on_demand(question)
        beat = self._store.get_json(LeaseKeys(lease_id).heartbeat) or {}
        return leave_on_rebalance(question) if beat.get("rebalance_at") else ""
