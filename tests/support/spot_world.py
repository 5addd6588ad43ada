"""A world in which capacity comes and goes, and one job in it that asks `choose_capacity` whenever it holds nothing.

On demand can always be had. Spot pools go up and down at random, and take capacity away with or without a notice. Time
is virtual: a job of days takes milliseconds.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from dataclasses import dataclass, field

from include.compute.capacity_choice.choice import choose_capacity
from include.compute.capacity_choice.moving import leave_on_demand, look_again_s
from include.compute.capacity_choice.question import PoolEvent, Question, RecoveryTerms, Strategy, is_spot
from include.core.contracts.lease import LaunchCandidate

HOUR_S = 3600.0


def candidate(
    name: str = "g6.xlarge", purchase: str = "spot", zone: str | None = None, usd: str | None = None, **fields: object
) -> LaunchCandidate:
    """A candidate at a third of the on-demand price of 1 USD."""
    price = usd or ("1.00" if purchase == "on-demand" else "0.33")
    values = {"instance_type": name, "purchase": purchase, "region": "us-east-1", "zone": zone, "usd_per_h": price}
    return LaunchCandidate(**{"list_usd_per_h": "1.00", "accelerators": 1, **values, **fields})


POOLS = tuple(candidate(zone=f"us-east-1{letter}") for letter in "abc")
ON_DEMAND = candidate(purchase="on-demand")


def terms(strategy: Strategy, *, work_h: float, deadline_h: float | None, **fields: object) -> RecoveryTerms:
    values = {"start_s": 180.0, "interval_s": 300.0, "save_s": 5.0, "checkpoint_bytes": 10**9, **fields}
    deadline_s = None if deadline_h is None else deadline_h * HOUR_S
    return RecoveryTerms(
        strategy=strategy, chosen_by="test", work_s=work_h * HOUR_S, deadline_in_s=deadline_s, started_s=0.0, **values
    )


@dataclass
class SpotWorld:
    """Availability of pools, each by its zone, with exponential times up and down."""

    seed: int
    up_h: float = 4.0
    down_h: float = 2.0
    horizon_h: float = 200.0
    notice: float = 0.7

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self._up: dict[str | None, bool] = {}
        self._flips: dict[str | None, list[float]] = {}

    def _pool(self, pool: LaunchCandidate) -> list[float]:
        if pool.zone not in self._flips:
            chance = random.Random(f"{self.seed} {pool.zone}")
            up = chance.random() < self.up_h / (self.up_h + self.down_h)
            self._up[pool.zone], times, now = up, [], 0.0
            while now < self.horizon_h * HOUR_S:
                now += chance.expovariate(1 / ((self.up_h if up else self.down_h) * HOUR_S))
                times.append(now)
                up = not up
            self._flips[pool.zone] = times
        return self._flips[pool.zone]

    def open_until(self, pool: LaunchCandidate, now: float) -> float | None:
        """Until when capacity launched now lasts, None where there is none."""
        if not is_spot(pool):
            return float("inf")
        times = self._pool(pool)
        passed = bisect_right(times, now)
        if self._up[pool.zone] == (passed % 2 == 1):
            return None
        return times[passed] if passed < len(times) else float("inf")


@dataclass(kw_only=True)
class Job:
    """One job from its beginning to its end."""

    world: SpotWorld
    terms: RecoveryTerms
    candidates: tuple[LaunchCandidate, ...]
    now: float = 0.0
    done: float = 0.0
    usd: float = 0.0
    losses: int = 0
    moves: int = 0
    refusals: int = 0
    past: list[PoolEvent] = field(default_factory=list)
    held: list[str] = field(default_factory=list)

    @property
    def late(self) -> bool:
        assert self.terms.deadline_in_s is not None
        return self.now > self.terms.deadline_in_s + 1.0

    @property
    def work_s(self) -> float:
        assert self.terms.work_s is not None
        return self.terms.work_s

    def question(self, held: str = "") -> Question:
        return Question(
            candidates=self.candidates,
            terms=self.terms,
            now_s=self.now,
            started_s=0.0,
            done=self.done / self.work_s,
            past=tuple(self.past),
            preemptions_left=1000,
            held=held,
        )

    def live(self) -> Job:
        """To the end."""
        while self.done < self.work_s - 1e-6:
            assert self.now < self.world.horizon_h * HOUR_S, "the job never ends"
            move = choose_capacity(self.question())
            assert bool(move.candidates) != bool(move.wait_s), move
            pool = next((option for option in move.candidates if self._has(option)), None)
            if pool is not None:
                self._hold(pool)
            else:
                self.now += move.wait_s + self.world.random.uniform(1, 5)
        return self

    def _has(self, pool: LaunchCandidate) -> bool:
        if self.world.open_until(pool, self.now) is not None:
            return True
        self.refusals += 1
        self._note("refused", pool)
        return False

    def _hold(self, pool: LaunchCandidate) -> None:
        """Work on a pool until it goes away, the strategy leaves it, or the work is done."""
        self._note("had", pool)
        self.held.append(pool.purchase)
        began, before, until = self.now, self.done, self.world.open_until(pool, self.now)
        assert until is not None
        works_from = began + self.terms.start_s + (self.terms.checkpoint_bytes or 0) / 5e8
        finish = works_from + self.work_s - before
        while self.now < min(until, finish):
            look = look_again_s(self.question(pool.purchase)) or float("inf")
            self.now = min(until, finish, self.now + look)
            self.done = before + max(self.now - works_from, 0.0)
            if self.now < min(until, finish) and leave_on_demand(self.question(pool.purchase)):
                self.moves += 1
                self._note("left", pool)
                break
        self.usd += (self.now - began) / HOUR_S * float(pool.usd_per_h or 0)
        if self.now == until and until < finish:
            self._lose(pool, before)

    def _lose(self, pool: LaunchCandidate, before: float) -> None:
        self.losses += 1
        self._note("lost", pool)
        if self.world.random.random() > self.world.notice:
            interval_s = self.terms.interval_s
            self.done = before + (self.done - before) // interval_s * interval_s

    def _note(self, what: str, pool: LaunchCandidate) -> None:
        self.past.append(
            PoolEvent(
                at_s=self.now,
                what=what,
                instance_type=pool.instance_type,
                purchase=pool.purchase,
                region=pool.region,
                zone=pool.zone,
            )
        )
