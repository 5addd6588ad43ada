"""Who may start a lease now, who waits, and who never will: the rules of quotas and their queue. Pure.

Of those who wait, the higher priority goes first, then who has waited longest; a run that lost its lease counts from
its first one, so that an interruption does not send it to the end. One that fits into what is free is let
past another that does not, so that nothing lies idle; but an entry lets others past it for `OVERTAKEN_FOR_S` at most.
After that, what becomes free is kept until it fits, so a large lease is not starved by small ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from include.config.quota_file import Limits
from include.core.errors import BudgetExceededError
from include.ledger.records import IntentLimits, QueueEntry, TeamUse

# A task asks again after so long; it is a deferral, not a busy wait.
ASK_AGAIN_S = 30.0
# Who has not asked for so long has lost its place: twenty missed asks, or a restart of the scheduler that took long.
KEEPS_PLACE_S = 600.0
# How long smaller leases may be let past one that does not fit yet.
OVERTAKEN_FOR_S = 900.0

_NO_LIMIT = Decimal("Infinity")
_QUOTA_HELP = "ask for less, or raise the quota in PLIMSOLL_QUOTA_FILE"


@dataclass(slots=True, kw_only=True)
class _Room:
    """What is left of a limit; less than nothing where it is kept for somebody who does not fit yet."""

    gpus: Decimal
    usd_per_h: Decimal

    @classmethod
    def of(cls, limits: tuple[int | None, Decimal | None], used: Iterable[TeamUse]) -> _Room:
        gpus, usd_per_h = (_NO_LIMIT if limit is None else Decimal(limit) for limit in limits)
        listed = tuple(used)
        return cls(
            gpus=gpus - sum(use.gpus for use in listed),
            usd_per_h=usd_per_h - sum((use.usd_per_h for use in listed), Decimal(0)),
        )

    def holds(self, entry: QueueEntry) -> bool:
        # What an entry does not ask for cannot be lacking, even where less than nothing is left of it.
        usd_per_h = entry.usd_per_h or Decimal(0)
        return (not entry.gpus or entry.gpus <= self.gpus) and (not usd_per_h or usd_per_h <= self.usd_per_h)

    def take(self, entry: QueueEntry) -> None:
        self.gpus -= entry.gpus
        self.usd_per_h -= entry.usd_per_h or Decimal(0)


def competitors(asker: QueueEntry, entries: Sequence[QueueEntry], *, total: Limits | None) -> tuple[QueueEntry, ...]:
    """Those of the queue, in its order, that may stand in the way: its own team, with a common limit all teams."""
    return tuple(entry for entry in entries if total is not None or entry.team == asker.team)


def may_start(
    asker: QueueEntry,
    ahead: Sequence[QueueEntry],
    *,
    uses: Mapping[str, TeamUse],
    total: Limits | None,
    now: datetime,
) -> bool:
    """Whether a lease may start now without taking what belongs to one that comes first.

    Args:
        asker: Who asks.
        ahead: Who waits before it, in order.
        uses: What each team holds.
        total: Limits of all teams together.
        now: The time.
    """
    shared = _Room.of((None, None) if total is None else (total.gpus, total.usd_per_h), uses.values())
    rooms = {asker.team: _room_of_team(asker, uses)}
    for entry in ahead:
        room = rooms.setdefault(entry.team, _room_of_team(entry, uses))
        fits_team = room.holds(entry)
        fits = fits_team and shared.holds(entry)
        if not fits and now - datetime.fromisoformat(entry.since) < timedelta(seconds=OVERTAKEN_FOR_S):
            continue
        room.take(entry)
        if fits_team:  # one that its own team's quota holds up keeps nothing from the other teams
            shared.take(entry)
    return rooms[asker.team].holds(asker) and shared.holds(asker)


def _room_of_team(entry: QueueEntry, uses: Mapping[str, TeamUse]) -> _Room:
    used = [uses[entry.team]] if entry.team in uses else []
    return _Room.of((entry.quota_gpus, entry.quota_usd_per_h), used)


def refuse_impossible(limits: IntentLimits, *, where: str) -> None:
    """Refuse what no waiting can bring.

    Raises:
        BudgetExceededError: More is asked for than the quota ever gives, or the price is unknown and is limited.
    """
    for whose, quota in _quotas(limits):
        if quota.gpus is not None and limits.gpus > quota.gpus:
            _refuse(f"{limits.gpus} GPUs asked for", f"{quota.gpus} GPUs of {whose}", where, _QUOTA_HELP)
        if quota.usd_per_h is None:
            continue
        if limits.usd_per_h is None:
            todo = "refresh the prices, or state the price of your own machine"
            _refuse("a lease without a known price", f"{quota.usd_per_h} USD per hour of {whose}", where, todo)
        elif limits.usd_per_h > quota.usd_per_h:
            found, allowed = f"{limits.usd_per_h} USD per hour asked for", f"{quota.usd_per_h} USD per hour of {whose}"
            _refuse(found, allowed, where, _QUOTA_HELP)


def refuse_over_month(limits: IntentLimits, uses: Mapping[str, TeamUse], *, next_month: str, where: str) -> None:
    """Refuse what this month has no money for any more.

    Args:
        limits: What is asked for, and the quotas.
        uses: What each team holds, has spent and has promised this month.
        next_month: First day of the next month, an ISO date.
        where: The run.

    Raises:
        BudgetExceededError: Spent, promised and asked for are more than the month allows.
    """
    for whose, quota in _quotas(limits):
        if quota.usd_per_month is None:
            continue
        listed = [use for team, use in uses.items() if quota is limits.total or team == limits.team]
        spent = sum((use.spent_usd for use in listed), Decimal(0))
        promised = sum((use.promised_usd for use in listed), Decimal(0))
        over = spent + promised + (limits.commit_usd or Decimal(0)) > quota.usd_per_month
        # Of a lease whose cost nobody can tell, all that is known is that it costs more than nothing.
        if over or (limits.commit_usd is None and spent + promised >= quota.usd_per_month):
            asked = "an unknown sum" if limits.commit_usd is None else f"{limits.commit_usd} USD"
            _refuse(
                f"{spent} USD spent this month, {promised} USD promised to open leases, {asked} asked for",
                f"{quota.usd_per_month} USD per month of {whose}",
                where,
                f"wait for {next_month} (UTC), when the next month begins, or raise the quota in PLIMSOLL_QUOTA_FILE",
            )


def _quotas(limits: IntentLimits) -> list[tuple[str, Limits]]:
    found = [(f"team {limits.team}", limits.quota), ("all teams together", limits.total)]
    return [(whose, quota) for whose, quota in found if quota is not None]


def _refuse(found: str, allowed: str, where: str, todo: str) -> None:
    raise BudgetExceededError("quota exceeded", where=where, found=found, allowed=allowed, todo=todo)


def describe_wait(asker: QueueEntry, *, uses: Mapping[str, TeamUse], total: Limits | None, place: str) -> str:
    """One sentence: what is asked for, what is held and allowed, and the place in the queue."""
    own = uses.get(asker.team, TeamUse(team=asker.team))
    parts = [f"team {asker.team}: {_held([own], asker.quota_gpus, asker.quota_usd_per_h)}"]
    if total is not None:
        parts.append(f"all teams: {_held(list(uses.values()), total.gpus, total.usd_per_h)}")
    price = "" if asker.usd_per_h is None else f" at {asker.usd_per_h} USD per hour"
    return f"waits for its quota, {place} | asked for: {asker.gpus} GPUs{price} | in use: {'; '.join(parts)}"


def _held(uses: Sequence[TeamUse], gpus: int | None, usd_per_h: Decimal | None) -> str:
    held = f"{sum(use.gpus for use in uses)} of {'any' if gpus is None else gpus} GPUs"
    if usd_per_h is not None:
        held += f", {sum((use.usd_per_h for use in uses), Decimal(0))} of {usd_per_h} USD per hour"
    return f"{held} by {sum(use.leases for use in uses)} leases"
