"""What is known of the store when a clean-up is planned, and what the plan says. Plain types."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

COMMIT = "COMMIT.json"
QUARANTINE = "quarantine"
MANIFEST = "MANIFEST.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """One object of the store."""

    key: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCheckpoint:
    """One directory ``runs/<workload>/<run>/checkpoints/step-<n>-<attempt>``.

    Attributes:
        prefix: Key of the directory, without a slash at the end.
        run: Prefix of its run, ``runs/<workload>/<run>``.
        step: Optimizer steps done.
        attempt: Attempt that wrote it.
        committed: Whether its COMMIT.json is there.
        valid: Whether all files and blobs have the sizes and digests of the commit; None where it was not looked at.
        objects: All objects below it.
        blobs: Keys of the blobs that its commit names; None without a commit, and where it was not or cannot be read.
    """

    prefix: str
    run: str
    step: int
    attempt: int
    committed: bool
    valid: bool | None
    objects: tuple[StoredObject, ...]
    blobs: frozenset[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantine:
    """One batch ``quarantine/<id>/``.

    Attributes:
        batch: Its id.
        since: When it was put there; None where its manifest says nothing usable, then it is left alone.
        objects: The copies, with their keys below ``quarantine/``.
    """

    batch: str
    since: datetime | None
    objects: tuple[StoredObject, ...]

    def original(self, key: str) -> str:
        """Where a copy came from."""
        return key.removeprefix(f"{QUARANTINE}/{self.batch}/objects/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """The store at one moment.

    Attributes:
        total_bytes: All objects outside the quarantine.
        checkpoints: All checkpoint directories.
        leases: Control files by lease id.
        quarantines: All batches in quarantine.
        blobs: By prefix of their run, ``runs/<workload>/<run>/checkpoints/blobs/*``, which its checkpoints share.
    """

    total_bytes: int
    checkpoints: tuple[StoredCheckpoint, ...]
    leases: dict[str, tuple[StoredObject, ...]]
    quarantines: tuple[Quarantine, ...]
    blobs: dict[str, tuple[StoredObject, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupPolicy:
    """What is kept.

    Attributes:
        keep_last: Newest valid checkpoints kept per run, at least 1.
        quarantine_days: Days between quarantine and deletion.
    """

    keep_last: int = 1
    quarantine_days: float = 7.0

    def __post_init__(self) -> None:
        if self.keep_last < 1 or self.quarantine_days < 0:
            raise ValueError("a clean-up keeps at least one checkpoint per run and waits no negative time")


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """Objects that go together for one reason.

    Attributes:
        prefix: Their common prefix.
        reason: Why nobody needs them.
        objects: The objects, in the order in which they go.
        uncommitted: The objects go only while there is no commit beside them.
        commits: The objects, blobs, go only while their run has no other commits than these; None for all others.
    """

    prefix: str
    reason: str
    objects: tuple[StoredObject, ...]
    uncommitted: bool = False
    commits: frozenset[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A prefix that was looked at and stays, with the reason."""

    prefix: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupPlan:
    """What would go, and what stays.

    Attributes:
        batch: Id of the quarantine batch; the same plan always has the same one.
        to_quarantine: What moves to quarantine.
        to_delete: What is deleted from quarantine for good.
        kept: What stays, with reasons.
        total_bytes: Size of the store outside the quarantine, which shares refer to.
    """

    batch: str
    to_quarantine: tuple[Planned, ...]
    to_delete: tuple[Planned, ...]
    kept: tuple[Kept, ...]
    total_bytes: int


def count_objects(planned: tuple[Planned, ...]) -> int:
    """Number of objects."""
    return sum(len(item.objects) for item in planned)


def count_bytes(planned: tuple[Planned, ...]) -> int:
    """Size of all objects."""
    return sum(found.size_bytes for item in planned for found in item.objects)
