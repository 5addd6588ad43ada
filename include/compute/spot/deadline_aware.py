"""Our strategy: the cheapest expected way to the deadline, over all zones, and never late where on demand is not.

At each decision the expected cost to the end is compared for staying, starting spot in the best open zone, going on
demand, and waiting. The expectation rests on rates learned from what the zones did up to now
(`include.compute.spot.outlook`) and is looked up in a table (`include.compute.spot.value_table`). What could make the
job late if the spot were lost at once is not compared at all.
"""

from __future__ import annotations

from include.compute.spot.outlook import FRESH_H, Outlook, look_back
from include.compute.spot.situation import NOTHING, ON_DEMAND, Choice, Held, Situation
from include.compute.spot.value_table import (
    DOWN_FRESH,
    DOWN_LASTING,
    UP_FRESH,
    UP_LASTING,
    ValueTable,
    build_table,
)
from include.compute.spot.value_table import NOTHING as NOTHING_ROW
from include.compute.spot.value_table import ON_DEMAND as ON_DEMAND_ROW
from include.compute.spot.value_table import SPOT as SPOT_ROW

_HOUR_S = 3600.0
# The past is looked at again so often.
LOOK_EVERY_S = 6 * _HOUR_S
# Time is worth something even where the table sees none: of equal costs, the work that is done sooner is taken.
WAITING_HAS_TO_SAVE = 0.02


class DeadlineAware:
    """One job's decisions."""

    def __init__(self) -> None:
        self._looked_at_s: float | None = None
        self._outlook: Outlook
        self._table: ValueTable

    def choose(self, situation: Situation) -> Choice:
        """See `Strategy`."""
        self._look(situation)
        market, zone = self._market(situation)
        costs = [(self._on_demand(situation, market), ON_DEMAND)]
        if situation.current.held is Held.SPOT:
            if self._may_stay(situation):
                costs.append((self._spot(situation, situation.current, market), situation.current))
        else:
            if zone is not None and not situation.slack_is_gone:
                start = Choice(held=Held.SPOT, zone=zone)
                costs.append((self._spot(situation, start, market), start))
            if self._may_wait(situation):
                waiting = self._after(situation, NOTHING_ROW + market, worked_s=0.0)
                costs.append((waiting + WAITING_HAS_TO_SAVE * situation.terms.tick_s / _HOUR_S, NOTHING))
        return min(costs, key=lambda item: item[0])[1]

    def _look(self, situation: Situation) -> None:
        if self._looked_at_s is not None and situation.elapsed_s - self._looked_at_s < LOOK_EVERY_S:
            return
        terms = situation.terms
        self._looked_at_s = situation.elapsed_s
        self._outlook = look_back(situation.history, tick_s=terms.tick_s)
        self._table = build_table(
            self._outlook,
            work_s=terms.work_s,
            deadline_s=terms.deadline_s,
            changeover_s=terms.changeover_s,
            spot_share=min(terms.spot_usd_per_h) / terms.on_demand_usd_per_h,
        )

    def _market(self, situation: Situation) -> tuple[int, int | None]:
        """State of the market and the zone to look at: the one held, or the cheapest with its losses reckoned in."""
        recent = situation.history[:, -int(FRESH_H * _HOUR_S / situation.terms.tick_s) - 1 :]
        if not situation.open_zones:
            return (DOWN_FRESH if recent.any() else DOWN_LASTING), None
        zone = situation.current.zone
        if zone is None:
            zone = min(
                situation.open_zones, key=lambda z: self._price_of_work(situation, z, lasts=bool(recent[z].all()))
            )
        return (UP_LASTING if recent[zone].all() else UP_FRESH), zone

    def _price_of_work(self, situation: Situation, zone: int, *, lasts: bool) -> float:
        """Price of an hour, and of the changeovers that its losses cost."""
        seen = self._outlook
        usual = sum(seen.loss_per_h) / len(seen.loss_per_h)
        loss = seen.loss_per_h[zone] / usual * (seen.lasting_loss_per_h if lasts else seen.fresh_loss_per_h)
        return situation.terms.spot_usd_per_h[zone] * (1 + loss * situation.terms.changeover_s / _HOUR_S)

    @staticmethod
    def _may_stay(situation: Situation) -> bool:
        """Spot that is lost leaves time for a start on demand."""
        needed = situation.work_left_s + situation.terms.changeover_s + situation.pending_s
        return situation.time_left_s >= needed

    @staticmethod
    def _may_wait(situation: Situation) -> bool:
        """The next decision, late by half a tick at most, leaves time for a start on demand."""
        terms = situation.terms
        return situation.time_left_s >= situation.work_left_s + terms.changeover_s + 1.5 * terms.tick_s

    def _spot(self, situation: Situation, choice: Choice, market: int) -> float:
        terms, zone = situation.terms, choice.zone
        assert zone is not None
        pending = situation.pending_s if choice == situation.current else terms.changeover_s
        share = terms.spot_usd_per_h[zone] / terms.on_demand_usd_per_h
        return share * self._paid_h(situation, pending) + self._after(
            situation, SPOT_ROW + market, worked_s=max(terms.tick_s - pending, 0.0)
        )

    def _on_demand(self, situation: Situation, market: int) -> float:
        terms = situation.terms
        pending = situation.pending_s if situation.current == ON_DEMAND else terms.changeover_s
        return self._paid_h(situation, pending) + self._after(
            situation, ON_DEMAND_ROW + market, worked_s=max(terms.tick_s - pending, 0.0)
        )

    @staticmethod
    def _paid_h(situation: Situation, pending_s: float) -> float:
        """Hours paid for this tick, and for the part of the changeover that is longer than it."""
        tick_s = situation.terms.tick_s
        return (tick_s + max(pending_s - tick_s, 0.0)) / _HOUR_S

    def _after(self, situation: Situation, row: int, *, worked_s: float) -> float:
        return self._table.cost_h(
            row,
            work_left_s=situation.work_left_s - worked_s,
            time_left_s=situation.time_left_s - situation.terms.tick_s,
        )
