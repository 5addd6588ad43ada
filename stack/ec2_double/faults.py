"""What shall go wrong: rules that are matched against calls, in order, each as often as it says."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from pydantic import Field, model_validator

from include.config.schedule import Edge

# What one try of a fleet to launch is called; its parameters are InstanceType, AvailabilityZone and Lifecycle.
FLEET_LAUNCH = "CreateFleet.Launch"


class Fault(Edge):
    """One rule.

    Attributes:
        action: Pattern of the action, with ``*``; ``CreateFleet.Launch`` is a single launch of a fleet, whose error
            comes inside the answer.
        service: Service that the call is signed for.
        match: Regular expressions by name of a parameter, as it is on the wire (``Placement.AvailabilityZone``), each
            of the whole value; a name may have ``*``, then any parameter of such a name does.
        code: Error code; None lets the call through (for a delay, or with ``after`` or ``lost``).
        message: Message of the error.
        status: HTTP status; None takes that of the code.
        after: The call takes effect first; what then fails is the answer. With a code the caller sees that error,
            without one the connection is cut.
        lost: The connection is cut before anything happens.
        delay_s: Seconds that the answer takes.
        raw: Body of an answer that is given instead.
        content_type: Content type of ``raw``.
        skip: Calls that the rule lets pass before it begins.
        times: How often it applies, None for ever.
    """

    action: str
    service: str = "ec2"
    match: dict[str, str] = Field(default_factory=dict)
    code: str | None = None
    message: str = ""
    status: int | None = Field(default=None, ge=200, le=599)
    after: bool = False
    lost: bool = False
    delay_s: float = Field(default=0.0, ge=0)
    raw: str | None = None
    content_type: str = "text/xml;charset=UTF-8"
    skip: int = Field(default=0, ge=0)
    times: int | None = Field(default=1, ge=1)

    @model_validator(mode="after")
    def _does_something(self) -> Fault:
        if not (self.code or self.after or self.lost or self.delay_s or self.raw is not None):
            raise ValueError("a fault needs one of 'code', 'after', 'lost', 'delay_s' and 'raw'")
        return self

    def fits(self, *, service: str, action: str, parameters: Mapping[str, Any]) -> bool:
        """Whether the rule speaks of this call."""
        if service != self.service or not fnmatchcase(action, self.action):
            return False
        return all(_matches(name, pattern, parameters) for name, pattern in self.match.items())


def _matches(name: str, pattern: str, parameters: Mapping[str, Any]) -> bool:
    if "*" not in name:
        return re.fullmatch(pattern, str(parameters.get(name, ""))) is not None
    return any(fnmatchcase(key, name) and re.fullmatch(pattern, str(value)) for key, value in parameters.items())


@dataclass(slots=True, kw_only=True)
class _Counted:
    rule: Fault
    seen: int = 0


class Faults:
    """The rules in force, and the actions that the caller has no permission for.

    Args:
        rules: Rules, the first that fits applies.
        forbidden: Actions that are answered with UnauthorizedOperation, dry run or not; patterns with ``*``.
    """

    def __init__(self, rules: Iterable[Fault] = (), *, forbidden: Iterable[str] = ()) -> None:
        self._lock = threading.Lock()
        self._rules = [_Counted(rule=rule) for rule in rules]
        self.forbidden = set(forbidden)
        self.applied: list[Fault] = []

    def add(self, **rule: Any) -> None:  # noqa: ANN401 - fields of Fault, which checks them
        """Add a rule by its fields."""
        with self._lock:
            self._rules.append(_Counted(rule=Fault.model_validate(rule)))

    def clear(self) -> None:
        """Drop all rules and permissions that are missing."""
        with self._lock:
            self._rules.clear()
            self.forbidden.clear()

    def forbids(self, action: str) -> bool:
        """Whether the caller has no permission for an action."""
        return any(fnmatchcase(action, pattern) for pattern in self.forbidden)

    def next(self, *, service: str, action: str, parameters: Mapping[str, Any]) -> Fault | None:
        """The rule that applies to this call, None where all goes well. It counts as applied."""
        with self._lock:
            for entry in self._rules:
                rule, seen = entry.rule, entry.seen
                spent = rule.times is not None and seen >= rule.skip + rule.times
                if spent or not rule.fits(service=service, action=action, parameters=parameters):
                    continue
                entry.seen = seen + 1
                if seen >= rule.skip:
                    self.applied.append(rule)
                    return rule
            return None
