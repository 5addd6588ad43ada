"""What a choice of capacity rests on, and its answer. Plain values, so that every case can be listed and tested."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Literal

from include.core.contracts.lease import LaunchCandidate
from include.core.contracts.offer import PurchaseOption


class Strategy(StrEnum):
    """Named strategies of `compute.recovery` in a workload file."""

    GREEDY = "greedy"
    UNIFORM_PROGRESS = "uniform-progress"
    DEADLINE_AWARE = "deadline-aware"
    ON_DEMAND = "on-demand"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryTerms:
    """What stays the same over the life of a capacity group.

    Attributes:
        strategy: The strategy.
        chosen_by: Why it is this one, in a few words.
        job: Job whose progress counts.
        instances: Instances of one lease, all or none.
        work_s: Seconds of undisturbed work in all, None where nobody predicted them.
        started_s: POSIX seconds from which the deadline counts; None: from the group's first intent.
        deadline_in_s: Seconds from the start until the work has to be done, None without such a deadline.
        deadline_at_s: POSIX seconds at which it has to be done, None without such a deadline.
        start_s: Seconds from a launch to the first step.
        interval_s: Seconds between two checkpoints: what a loss without notice costs at most.
        save_s: Seconds that one checkpoint takes.
        checkpoint_bytes: Size of a checkpoint, None where unknown.
        home_region: Region of the object store, where a checkpoint is read from; empty where unknown.
        usd: Predicted cost of the whole work, None where unknown.
    """

    strategy: Strategy
    chosen_by: str
    job: str = "train"
    instances: int = 1
    work_s: float | None = None
    started_s: float | None = None
    deadline_in_s: float | None = None
    deadline_at_s: float | None = None
    start_s: float = 60.0
    interval_s: float = 0.0
    save_s: float = 0.0
    checkpoint_bytes: int | None = None
    home_region: str = ""
    usd: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolEvent:
    """What was seen of the capacity that a candidate stands for.

    Attributes:
        at_s: POSIX seconds.
        what: ``had``: it was launched; ``lost``: it was taken away; ``refused``: there was none; ``left``: it was given
            back.
        instance_type: Its type.
        purchase: Its purchase option.
        region: Its region.
        zone: Its zone, None where it is not known.
    """

    at_s: float
    what: Literal["had", "lost", "refused", "left"]
    instance_type: str
    purchase: str
    region: str
    zone: str | None = None

    def is_of(self, candidate: LaunchCandidate) -> bool:
        """Whether it says something of a candidate; one of any zone is refused only by all zones together."""
        same = (self.instance_type, self.purchase, self.region) == (
            candidate.instance_type,
            candidate.purchase,
            candidate.region,
        )
        if candidate.zone is None:
            return same and (self.zone is None or self.what != "refused")
        return same and self.zone in {None, candidate.zone}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One choice.

    Attributes:
        candidates: Offers that would do, best first by the plan.
        terms: What stays the same.
        now_s: POSIX seconds.
        started_s: POSIX seconds from which the deadline counts.
        done: Share of the work that is safe in a checkpoint, 0..1.
        past: What the group has met, oldest first.
        usd_left: What the run's budget leaves, None without a budget.
        preemptions_left: Losses that the job may still have; with none, what can be taken away is not taken.
        wait_left_s: Seconds that the group may still wait for capacity.
        held: Purchase option of the capacity that is held, empty for none.
    """

    candidates: tuple[LaunchCandidate, ...]
    terms: RecoveryTerms
    now_s: float
    started_s: float
    done: float = 0.0
    past: tuple[PoolEvent, ...] = ()
    usd_left: Decimal | None = None
    preemptions_left: int = 1
    wait_left_s: float = float("inf")
    held: str = ""

    @property
    def work_left_s(self) -> float:
        """Seconds of work that are not safe yet; 0 where nobody predicted them."""
        return (self.terms.work_s or 0.0) * (1.0 - self.done)

    @property
    def window_s(self) -> float:
        """Seconds from the start to the deadline, infinite without one."""
        terms, never = self.terms, float("inf")
        within = never if terms.deadline_in_s is None else terms.deadline_in_s
        until = never if terms.deadline_at_s is None else terms.deadline_at_s - self.started_s
        return max(min(within, until), 1.0)

    @property
    def time_left_s(self) -> float:
        """Seconds until the deadline, infinite without one."""
        return self.started_s + self.window_s - self.now_s

    @property
    def has_deadline(self) -> bool:
        """Whether there is a deadline, and a prediction of the work to hold it against."""
        return self.window_s < float("inf") and self.terms.work_s is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """An answer: candidates to try now in this order, or, without any, seconds to wait.

    Attributes:
        candidates: What to try.
        wait_s: How long to wait before the next choice; 0 with candidates.
        why: One sentence.
    """

    candidates: tuple[LaunchCandidate, ...] = ()
    wait_s: float = 0.0
    why: str = ""


def is_spot(candidate: LaunchCandidate) -> bool:
    """Whether it can be taken away."""
    return candidate.purchase == PurchaseOption.SPOT.value
