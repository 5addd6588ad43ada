"""One lease whose documents or tags make no sense, among many: who walks over leases sets it aside and goes on.

A machine that is rented writes some of these documents, so none of them is trusted to be what it should be.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from obstore.exceptions import InvalidPathError, PermissionDeniedError

from include.compute.lease_keys import ROOT
from include.core.contracts.lease import Lease
from include.core.errors import PlimsollError, UserError
from include.core.json_codec import from_json
from include.core.store import ObjectStore

T = TypeVar("T")


class DamagedDocumentError(PlimsollError):
    """A document of the store is not what it should be; the message names its key."""


class UnreadableLeasesError(PlimsollError):
    """Some leases cannot be read; the others were.

    Args:
        problems: Why, by lease.
        found: All leases that could be read.
    """

    def __init__(self, problems: Mapping[str, str], found: tuple[Lease, ...]) -> None:
        super().__init__("; ".join(problems.values()))
        self.problems = dict(problems)
        self.found = found


# What damage looks like; a store or an EC2 that gives no answer is none, and stops the walk.
_DAMAGE = (
    DamagedDocumentError,
    UserError,
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    ArithmeticError,
    InvalidPathError,
    PermissionDeniedError,
)


def read_object(store: ObjectStore, key: str) -> dict[str, Any] | None:
    """A JSON object of the store, None where there is none.

    Raises:
        DamagedDocumentError: There is something else.
    """
    try:
        value = store.get_json(key)
    except (ValueError, RecursionError) as error:
        raise DamagedDocumentError(f"{key} is no JSON: {_first_line(error)}") from error
    if value is None or isinstance(value, dict):
        return value
    raise DamagedDocumentError(f"{key} is no JSON object, found: {json.dumps(value)[:40]}")


def read_contract(store: ObjectStore, key: str, kind: type[T]) -> T | None:
    """A contract dataclass of the store, None where there is none.

    Raises:
        DamagedDocumentError: There is something else.
    """
    value = read_object(store, key)
    if value is None:
        return None
    try:
        return from_json(kind, value)
    except ValueError as error:
        raise DamagedDocumentError(f"{key} is no {kind.__name__}: {_first_line(error)}") from error


def moment(value: object) -> float | None:
    """POSIX seconds where a value is such, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        seconds = float(value)
    except (ValueError, OverflowError):
        return None
    return seconds if math.isfinite(seconds) else None


def expiry_in(heartbeat: Mapping[str, Any], *, key: str) -> float | None:
    """Until when an agent has extended its lease, None where it has not.

    Raises:
        DamagedDocumentError: It says something that is no moment.
    """
    value = heartbeat.get("expires_at")
    seconds = None if isinstance(value, str) else moment(value)
    if value is not None and seconds is None:
        raise DamagedDocumentError(f"{key}: expires_at is no moment, found: {str(value)[:40]!r}")
    return seconds


def read_each(lease_ids: Iterable[str], read: Callable[[str], Lease | None]) -> tuple[Lease, ...]:
    """Read many leases, each by itself.

    Args:
        lease_ids: The leases.
        read: Reads one; None for one that is nobody's here.

    Raises:
        UnreadableLeasesError: One or more of them cannot be read; it has the others.
    """
    found: list[Lease] = []
    problems: dict[str, str] = {}
    for lease_id in lease_ids:
        try:
            lease = read(lease_id)
        except _DAMAGE as error:
            problems[lease_id] = unreadable(lease_id, error)
        else:
            found += [] if lease is None else [lease]
    if problems:
        raise UnreadableLeasesError(problems, tuple(found))
    return tuple(found)


def sort_out(find: Callable[[], tuple[Lease, ...]]) -> tuple[tuple[Lease, ...], dict[str, str]]:
    """The leases that a walk could read, and by lease why it could not read the others."""
    try:
        return find(), {}
    except UnreadableLeasesError as error:
        return error.found, error.problems


def unreadable(lease_id: str, error: Exception) -> str:
    """The line for people: the key, or where the documents lie that make no sense together."""
    where = "" if isinstance(error, DamagedDocumentError) else f"in the documents below {ROOT}/{lease_id}: "
    return f"lease {lease_id} cannot be read: {where}{_first_line(error)}"


def _first_line(error: Exception) -> str:
    """Libraries tell a mistake in many lines, the place first."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    shown = lines[1:3] if type(error).__name__ == "ValidationError" and len(lines) > 1 else lines[:1]
    return ": ".join(shown)[:200] or type(error).__name__
