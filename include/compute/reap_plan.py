"""Which leases and leftovers have no right to be there: a pure function, so that every case can be listed and tested.

What cannot be proved to be of no use is kept: a run whose state cannot be read keeps its capacity until that expires.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from include.compute.ec2.resource import Kind, Resource

LIVE_RUNS = ("queued", "running")
# What an instance leaves behind when it goes without having been asked to take it along.
_LEFT_BEHIND = (Kind.FLEET, Kind.SPOT_REQUEST, Kind.ADDRESS, Kind.INTERFACE, Kind.VOLUME)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseFacts:
    """What all witnesses together know of one lease.

    Attributes:
        lease_id: The lease; empty for resources that name none.
        group_id: Its group.
        generation: Its generation within the group, None where nothing tells.
        dag_id: DAG that owns it, empty for a shared lease.
        run_id: Run that owns it, empty for a shared lease.
        alive: Whether its engine or an instance says that it lives.
        open: Whether the ledger holds it for open.
        written_off: Whether the ledger has its end.
        uncharged: Whether the ledger has its launch and its end and not its charge.
        known: Whether its engine or the ledger knows it, not its tags alone.
        expires_at: POSIX seconds: the latest that its launch or its agent's heartbeat grant; None where unknown.
        silent_s: Seconds since its agent's last heartbeat, None where there is none.
        resources: What it has on EC2.
        unreadable: Why what the store has of it cannot be read, empty where it can. Its tags alone count then.
    """

    lease_id: str
    group_id: str = ""
    generation: int | None = None
    dag_id: str = ""
    run_id: str = ""
    alive: bool = False
    open: bool = False
    written_off: bool = False
    uncharged: bool = False
    known: bool = False
    expires_at: float | None = None
    silent_s: float | None = None
    resources: tuple[Resource, ...] = ()
    unreadable: str = ""

    @property
    def tags_expire_at(self) -> float | None:
        """The latest moment that the tags of its resources grant, None where they name none."""
        return max((item.expires_at for item in self.resources if item.expires_at is not None), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReapLimits:
    """What one pass may do.

    Attributes:
        cap: Most leases that one pass ends; more is refused as a whole, since it smells of a wrong answer somewhere.
        stale_s: Silence of a live lease's agent from which it is reported.
        left_behind_s: Age from which a leftover of a live run counts as forgotten.
        expired_only: End only what has expired: nobody can be asked for the states of runs, or the store is gone.
    """

    cap: int = 50
    stale_s: float = 900.0
    left_behind_s: float = 900.0
    expired_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What becomes of one lease and why.

    Attributes:
        lease: The lease.
        why: The reason, for people.
        whole: Whether the lease itself ends, not only what it has left behind.
        resources: What is ended on EC2.
        suspect: Whether a person should look at what is kept.
        alarming: Whether people want to hear of the end.
    """

    lease: LeaseFacts
    why: str
    whole: bool = False
    resources: tuple[Resource, ...] = ()
    suspect: bool = False
    alarming: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ReapPlan:
    """The verdicts of one pass.

    Attributes:
        end: What is ended.
        keep: What is kept.
        refused: Why nothing of it is done, empty when it may be.
    """

    end: tuple[Verdict, ...]
    keep: tuple[Verdict, ...]
    refused: str = ""


def plan_reaping(
    found: Sequence[LeaseFacts],
    *,
    runs: Mapping[tuple[str, str], str | None],
    now: float,
    limits: ReapLimits,
) -> ReapPlan:
    """Judge everything that was found.

    Args:
        found: All leases with what they have on EC2; only what carries the tags of this installation.
        runs: State of each run by (DAG, run) in Airflow's words, ``deleted`` for a run that Airflow has not got, None
            where it cannot be read.
        now: POSIX seconds.
        limits: What this pass may do.
    """
    newest = _newest_alive(found)
    verdicts = [
        _by_tags(lease, now=now)
        if lease.unreadable
        else _judge(lease, newest=newest, runs=runs, now=now, limits=limits)
        for lease in found
    ]
    end = tuple(verdict for verdict in verdicts if verdict.whole or verdict.resources)
    keep = tuple(verdict for verdict in verdicts if not (verdict.whole or verdict.resources))
    refused = ""
    if len(end) > limits.cap:
        refused = f"{len(end)} leases have no right to be there, limit {limits.cap}; look before raising the limit"
    return ReapPlan(end=end, keep=keep, refused=refused)


def _newest_alive(found: Sequence[LeaseFacts]) -> dict[str, int]:
    """The newest generation of each group that lives."""
    newest: dict[str, int] = {}
    for lease in found:
        if lease.alive and lease.generation is not None:
            newest[lease.group_id] = max(lease.generation, newest.get(lease.group_id, 0))
    return newest


def _judge(
    lease: LeaseFacts,
    *,
    newest: Mapping[str, int],
    runs: Mapping[tuple[str, str], str | None],
    now: float,
    limits: ReapLimits,
) -> Verdict:
    if not lease.lease_id:
        return Verdict(lease=lease, why="its tags name no lease", suspect=True)
    state = runs.get((lease.dag_id, lease.run_id)) if lease.run_id else None
    if why := _no_right(lease, newest=newest.get(lease.group_id, 0), state=state, now=now, limits=limits):
        return Verdict(lease=lease, why=why, whole=True, resources=lease.resources)
    if lease.uncharged and not lease.alive and not limits.expired_only:
        why = "its end is written and its charge is not"
        return Verdict(lease=lease, why=why, whole=True, resources=lease.resources, alarming=False)
    if forgotten := _forgotten(lease, now=now, limits=limits):
        return Verdict(lease=lease, why="left behind by an instance that is gone", resources=forgotten)
    return _kept(lease, state=state, limits=limits)


def _by_tags(lease: LeaseFacts, *, now: float) -> Verdict:
    """What cannot be read is kept, unless its own tags say that it is over."""
    if lease.tags_expire_at is not None and lease.tags_expire_at < now:
        return Verdict(lease=lease, why="expired by its tags", whole=True, resources=lease.resources)
    return Verdict(lease=lease, why="it cannot be judged, see the problems", suspect=True)


def _no_right(lease: LeaseFacts, *, newest: int, state: str | None, now: float, limits: ReapLimits) -> str:
    """Why a lease has no right to live; empty when it has one, or when nobody can tell."""
    # A lease that has ended by itself and left nothing does not expire: as long as its run lives, its own recovery
    # settles it.
    if (lease.alive or lease.resources) and lease.expires_at is not None and lease.expires_at < now:
        return "expired"
    if limits.expired_only:
        return ""
    if lease.alive and lease.written_off:
        return "the ledger has its end, and yet it lives"
    if lease.alive and lease.generation is not None and lease.generation < newest:
        return f"generation {lease.generation} lives beside generation {newest}"
    if state is not None and state not in LIVE_RUNS:
        return f"its run is {state}"
    return ""


def _forgotten(lease: LeaseFacts, *, now: float, limits: ReapLimits) -> tuple[Resource, ...]:
    """What an ended instance of a live run has left behind long enough ago."""
    if lease.alive or limits.expired_only:
        return ()
    return tuple(
        item
        for item in lease.resources
        if item.kind in _LEFT_BEHIND
        and not item.attached_to
        and item.created_at is not None
        and now - item.created_at > limits.left_behind_s
    )


def _kept(lease: LeaseFacts, *, state: str | None, limits: ReapLimits) -> Verdict:
    if not lease.run_id:
        return Verdict(lease=lease, why="shared by all runs")
    if state is None:
        return Verdict(lease=lease, why="the state of its run cannot be read", suspect=True)
    if lease.alive and lease.silent_s is not None and lease.silent_s > limits.stale_s:
        # Its run lives, so that run's recovery acts; nobody may do so beside it.
        return Verdict(
            lease=lease, why=f"its run is {state}, its agent silent for {lease.silent_s:.0f} s", suspect=True
        )
    return Verdict(lease=lease, why=f"its run is {state}")
