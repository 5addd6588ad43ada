"""What a launch has met so far, what that rules out, and how it ends when every candidate was tried."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from include.compute.ec2.errors import Action, Kind, Verdict, verdict_of
from include.compute.ec2.families import quota_of
from include.compute.ec2.fleet import market_of
from include.core.contracts.lease import LaunchCandidate
from include.core.errors import LaunchRefusedError, NoCapacityError, PlimsollError

# Calls that may end in errors nobody knows before the launch is given up.
MOST_UNKNOWN = 3
_MOST_LINES = 12
_FOR_GOOD = frozenset({Kind.QUOTA, Kind.POOL, Kind.PARAMETER})


class Refusals:
    """Collects the refusals of one launch.

    Args:
        lease_id: The lease, for messages.
    """

    def __init__(self, lease_id: str) -> None:
        self._lease_id = lease_id
        self._kinds: set[Kind] = set()
        self._lines: list[str] = []
        self._over_quota: set[tuple[str, str]] = set()
        self._unknown = 0

    def rules_out(self, candidate: LaunchCandidate) -> bool:
        """Whether a quota that was met already covers this candidate too."""
        market = market_of(candidate)
        return {("", market), _family(candidate.instance_type, market)} & self._over_quota != set()

    def skip(self, candidate: LaunchCandidate, *, kind: Kind, why: str) -> None:
        """Note a candidate that is not even asked for."""
        self._add(kind, f"{candidate.instance_type} {candidate.purchase} {candidate.zone or 'any zone'}: {why}")

    def note(self, errors: Iterable[Mapping[str, str]], *, market: str) -> None:
        """Note the errors of one launching call that brought no instances.

        Raises:
            LaunchRefusedError: One of them forbids to go on, or too many calls met errors that nobody knows.
        """
        strange = None
        for error in errors:
            verdict = verdict_of(error["code"])
            self._add(verdict.kind, _line(verdict, error, market))
            if verdict.action is Action.STOP:
                raise self._refused(_FORBIDS.get(verdict.kind, "EC2 refuses the launch"), verdict)
            if verdict.kind is Kind.QUOTA:
                kind = error.get("instance_type", "")
                self._over_quota.add(_family(kind, market) if kind else ("", market))
            if verdict.kind in {Kind.UNKNOWN, Kind.TOKEN}:
                strange = verdict
        if strange is not None:
            self._unknown += 1
            if self._unknown >= MOST_UNKNOWN:
                raise self._refused("EC2 answers with errors that are not known", strange)

    def error(self, *, retry_after_s: float) -> PlimsollError:
        """How a launch ends whose candidates are all tried: waiting helps, or it does not."""
        found = "; ".join(self._lines) or "no candidate is left"
        if self._kinds <= _FOR_GOOD:
            over_quota = Kind.QUOTA in self._kinds
            return LaunchRefusedError(
                "a quota forbids the launch" if over_quota else "none of the candidates can be launched here",
                where=self._lease_id,
                found=found,
                todo="ask for a higher quota in Service Quotas, or allow other types"
                if over_quota
                else "change the zones, subnets or types that are allowed",
            )
        return NoCapacityError(f"no capacity for lease {self._lease_id} now: {found}", retry_after_s=retry_after_s)

    def _refused(self, message: str, verdict: Verdict) -> LaunchRefusedError:
        return LaunchRefusedError(
            message,
            where=self._lease_id,
            found="; ".join(self._lines),
            todo=_TODO.get(verdict.kind, f"look {verdict.code} up in EC2's error codes"),
        )

    def _add(self, kind: Kind, line: str) -> None:
        self._kinds.add(kind)
        if line not in self._lines and len(self._lines) < _MOST_LINES:
            self._lines.append(line)


_FORBIDS = {
    Kind.AUTH: "the credentials may not launch this",
    Kind.QUOTA: "a quota forbids the launch",
    Kind.PARAMETER: "EC2 refuses the launch as it is asked for",
}
_TODO = {
    Kind.AUTH: "allow it, see docs/how-to/rent-on-ec2.md",
    Kind.QUOTA: "ask for a higher quota in Service Quotas",
    Kind.PARAMETER: "change the setting or the launch template that it names",
}


def _family(instance_type: str, market: str) -> tuple[str, str]:
    quota = quota_of(instance_type, market)
    return (quota.family if quota else instance_type, market)


def _line(verdict: Verdict, error: Mapping[str, str], market: str) -> str:
    about = f"{error['instance_type']} {market}" if error.get("instance_type") else market
    message = f" ({error['message']})" if error.get("message") else ""
    return f"{about}: {verdict.code}{message}"
