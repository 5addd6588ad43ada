"""One job under one strategy on a trace of spot availability."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from include.compute.spot.situation import NOTHING, Choice, Held, Situation, Strategy, Terms

_DONE_WITHIN_S = 1e-6
_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a job.

    Attributes:
        usd: What it cost.
        spot_s: Seconds on spot, changeovers included.
        on_demand_s: Seconds on demand, changeovers included.
        spot_work_s: Seconds of work done on spot.
        elapsed_s: Seconds from start to end.
        preemptions: Times that spot was taken away.
        late: Whether it ended after the deadline.
    """

    usd: float
    spot_s: float
    on_demand_s: float
    spot_work_s: float
    elapsed_s: float
    preemptions: int
    late: bool


def simulate(strategy: Strategy, terms: Terms, availability: NDArray[np.bool_], *, start: int) -> Outcome:
    """Run a job to its end.

    A tick is wholly available or not; work is kept when spot goes away, and every start costs a changeover, which is
    paid for. What the strategy sees of the trace ends with the present tick.

    Args:
        strategy: Decides at every tick.
        terms: The job.
        availability: By zone and tick, shape (zones, ticks).
        start: Tick at which the job starts; what lies before is history.

    Raises:
        ValueError: The trace ends before the job, or the strategy chose spot where there was none.
    """
    elapsed = done = pending = usd = on_spot = 0.0
    held_s = {Held.SPOT: 0.0, Held.ON_DEMAND: 0.0, Held.NOTHING: 0.0}
    current, preemptions = NOTHING, 0
    while done < terms.work_s - _DONE_WITHIN_S:
        now = start + int(elapsed / terms.tick_s)
        if now >= availability.shape[1]:
            raise ValueError(f"the trace of {availability.shape[1]} ticks ends before the job")
        if current.zone is not None and not availability[current.zone, now]:
            current, preemptions = NOTHING, preemptions + 1
        chosen = strategy.choose(
            Situation(
                terms=terms,
                elapsed_s=elapsed,
                done_s=done,
                current=current,
                pending_s=pending,
                history=availability[:, : now + 1],
            )
        )
        if chosen.zone is not None and not availability[chosen.zone, now]:
            raise ValueError(f"spot was chosen in zone {chosen.zone}, where there is none at tick {now}")
        if chosen != current:
            pending, current = terms.changeover_s, chosen
        used = terms.tick_s
        if current.held is not Held.NOTHING:
            able = max(terms.tick_s - pending, 0.0)
            pending = max(pending - terms.tick_s, 0.0)
            worked = min(able, terms.work_s - done)
            used -= able - worked
            done += worked
            on_spot += worked if current.held is Held.SPOT else 0.0
            usd += used / _HOUR_S * _price(current, terms)
        held_s[current.held] += used
        elapsed += used
    return Outcome(
        usd=usd,
        spot_s=held_s[Held.SPOT],
        on_demand_s=held_s[Held.ON_DEMAND],
        spot_work_s=on_spot,
        elapsed_s=elapsed,
        preemptions=preemptions,
        late=elapsed > terms.deadline_s + 1.0,
    )


def _price(choice: Choice, terms: Terms) -> float:
    return terms.on_demand_usd_per_h if choice.zone is None else terms.spot_usd_per_h[choice.zone]
