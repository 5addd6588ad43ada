"""What EC2's instances and the agent's documents say of a lease, put together."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from include.compute.damage import moment
from include.compute.ec2 import tags as tag
from include.compute.ec2.inventory import Instance
from include.compute.ec2.launch_log import LaunchAnswer, LaunchIntent
from include.compute.ec2.launch_plan import candidates_of
from include.compute.launched_candidate import launched_candidate
from include.compute.pace import Pace
from include.core.clock import iso
from include.core.contracts.lease import BilledTime, LaunchCandidate, LaunchRequest, LeaseState

# EC2 shows what it has just launched after seconds at the latest; beyond that an instance that is not shown is gone.
VISIBLE_WITHIN_S = 120.0
# What a launching call without an answer has made is looked for so long by who ends the lease.
UNANSWERED_WITHIN_S = 30.0
# By then a call that was written down is made or will never be: no process tries longer.
_OPEN_WITHIN_S = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseFacts:
    """Everything that is known of one lease.

    Attributes:
        spec: Its launch request, None where nobody launched it.
        intent: The last launching call, None where there was none.
        answer: What came of it, None while that is open.
        instances: Its instances as EC2 shows them now.
        owner: The agent that owns it, empty for none.
        heartbeat: Its agent's latest word, empty for none.
        stopped: Whether it was told to stop.
        seen_ended: When an instance was first seen ended, by id.
    """

    spec: LaunchRequest | None
    intent: LaunchIntent | None
    answer: LaunchAnswer | None
    instances: Sequence[Instance]
    owner: Mapping[str, Any]
    heartbeat: Mapping[str, Any]
    stopped: bool
    seen_ended: Mapping[str, datetime]

    @property
    def members(self) -> tuple[Instance, ...]:
        """Instances that make up the lease: those of the launch that holds, else all that carry its tag."""
        if self.answer is None or not self.answer.instances:
            discarded = () if self.answer is None else self.answer.discarded
            return tuple(each for each in self.instances if each.instance_id not in discarded)
        return tuple(each for each in self.instances if each.instance_id in self.answer.instances)

    @property
    def live(self) -> tuple[Instance, ...]:
        """Every instance that is not over, wanted or not; a stopped one costs its volume."""
        return tuple(each for each in self.instances if not each.ends)

    @property
    def left(self) -> bool:
        """Whether the agent has said its last word."""
        return self.heartbeat.get("state") == "ended"


def state_of(facts: LeaseFacts, *, now: datetime) -> LeaseState:
    """State of a lease. A lease that lost one of its instances is over: the others cannot go on alone."""
    members = facts.members
    awaited = set(facts.answer.instances) if facts.answer else set()
    missing = awaited - {each.instance_id for each in members}
    if missing and is_fresh(facts.answer, now):
        # Eventual consistency: an instance that was just launched is not shown yet.
        return LeaseState.ENDED if facts.stopped or facts.left else LeaseState.STARTING
    if missing or any(not each.works for each in members):
        return LeaseState.ENDED
    if members:
        if facts.left:
            return LeaseState.ENDED
        return LeaseState.RUNNING if facts.owner else LeaseState.STARTING
    return LeaseState.ENDED if facts.stopped else LeaseState.STARTING


def is_fresh(answer: LaunchAnswer | None, now: datetime) -> bool:
    """Whether EC2 may not show yet what a launch has brought."""
    return answer is not None and (now - datetime.fromisoformat(answer.at)).total_seconds() < VISIBLE_WITHIN_S


def may_still_appear(facts: LeaseFacts, *, now: datetime, since: datetime) -> bool:
    """Whether EC2 may yet show an instance of the lease that it does not show now.

    Args:
        facts: The lease.
        now: Now.
        since: When the caller began to look. A call without an answer may have been made long after it was written
            down, so its instances are looked for from then on.
    """
    shown = {each.instance_id for each in facts.instances}
    if facts.answer is not None:
        return bool(set(facts.answer.instances) - shown) and is_fresh(facts.answer, now)
    if facts.intent is None or len(shown) >= facts.intent.request.instances:
        return False
    is_recent = (now - datetime.fromisoformat(facts.intent.at)).total_seconds() < _OPEN_WITHIN_S
    return is_recent and (now - since).total_seconds() < UNANSWERED_WITHIN_S


def ids_to_end(facts: LeaseFacts) -> set[str]:
    """Instances to terminate: those that are shown and not over, and those that are known but not shown yet."""
    shown = {each.instance_id for each in facts.instances}
    unseen = set(facts.answer.instances) - shown if facts.answer else set()
    return {each.instance_id for each in facts.live} | unseen


def how_it_ended(before: LeaseFacts, after: LeaseFacts) -> str:
    """The agent's own reason, ``killed``, ``lost`` or ``never started``."""
    if after.left:
        return str(after.heartbeat.get("reason", ""))
    if not after.owner:
        return "never started"
    return "killed" if before.live else "lost"


def expires_at_of(facts: LeaseFacts) -> float | None:
    """When the lease ends by itself: as its agent has extended it, else as its launch says."""
    if (extended := moment(facts.heartbeat.get("expires_at"))) is not None:
        return extended
    granted = (moment(each.tags.get(tag.EXPIRES_AT)) for each in facts.members)
    return next((at for at in granted if at is not None), None)


def is_settled(documents: Collection[str]) -> bool:
    """Whether a lease that EC2 shows nothing of is over, by its documents: told to stop, and no launch is open."""
    names = {key.partition("/launch/")[2] for key in documents if "/launch/" in key}
    answered = {name.removesuffix(".answer.json") for name in names if name.endswith(".answer.json")}
    begun = {name.removesuffix(".json") for name in names if not name.endswith(".answer.json")}
    return begun <= answered and any(key.endswith("/stop.json") for key in documents)


def candidate_of(spec: LaunchRequest, instance: Instance, *, region: str) -> LaunchCandidate | None:
    """The candidate that an instance was launched from: by type and market, its own zone before any zone."""
    return launched_candidate(
        candidates_of(spec, region=region),
        instance_type=instance.instance_type,
        spot=instance.spot,
        region=region,
        zone=instance.zone,
    )


def details_of(facts: LeaseFacts, *, region: str) -> dict[str, str]:
    """What was launched, for the ledger; empty where nothing was."""
    members = facts.members
    if facts.spec is None or not members:
        return {}
    first = members[0]
    candidate = candidate_of(facts.spec, first, region=region)
    details = {
        "instance_type": first.instance_type,
        "region": region,
        "zone": first.zone,
        "purchase": candidate.purchase if candidate else ("spot" if first.spot else "on-demand"),
        "instance_ids": ",".join(sorted(each.instance_id for each in members)),
    }
    if candidate is not None:
        prices = {"usd_per_h": candidate.usd_per_h, "list_usd_per_h": candidate.list_usd_per_h}
        details |= {key: value for key, value in prices.items() if value is not None} | candidate.price
    return details


def billed_of(facts: LeaseFacts, *, region: str) -> tuple[BilledTime, ...]:
    """Billed time of every instance of the lease, those that were not wanted included."""
    out = []
    for each in sorted(facts.instances, key=lambda item: item.instance_id):
        if each.launched_at is None:
            continue
        candidate = candidate_of(facts.spec, each, region=region) if facts.spec else None
        ended = _ended_at(facts, each)
        out.append(
            BilledTime(
                instance_id=each.instance_id,
                started_at=iso(each.launched_at),
                ended_at=None if ended is None else iso(max(ended, each.launched_at)),
                usd_per_h=candidate.usd_per_h if candidate else None,
            )
        )
    return tuple(out)


def first_look(heartbeat: Mapping[str, Any], *, now: datetime) -> datetime:
    """Which moment an end is given that nobody dates, by who sees it first.

    A clock that was set back shows a moment before the agent's own last beat. Then the end is taken to be where an
    agent that cannot reach the store gives up.
    """
    beat = datetime.fromisoformat(str(heartbeat["at"])) if heartbeat.get("at") else now
    return now if now >= beat else beat + timedelta(seconds=Pace().unreachable_s)


def _ended_at(facts: LeaseFacts, instance: Instance) -> datetime | None:
    """EC2's own time; without one, as after a shutdown from inside, the agent's last word, else the first look."""
    if instance.works:
        return None
    if instance.ended_at is not None:
        return instance.ended_at
    if facts.left and facts.heartbeat.get("at"):
        return datetime.fromisoformat(str(facts.heartbeat["at"]))
    return facts.seen_ended.get(instance.instance_id)
