"""Plans a clean-up. Pure: what may go follows from the arguments alone.

Only these go, and only with positive proof that nobody needs them:

- checkpoints of runs that are over, except those something refers to and the newest valid ones;
- step directories without a commit, of runs that are over;
- blobs of runs that are over, which no checkpoint names that stays;
- control files of leases that are over;
- copies in quarantine whose wait is over.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime, timedelta
from pathlib import PurePosixPath

from include.core.clock import iso
from include.core.ids import digest
from include.storage.facts import (
    COMMIT,
    MANIFEST,
    CleanupPlan,
    CleanupPolicy,
    Inventory,
    Kept,
    Planned,
    Quarantine,
    StoredCheckpoint,
    StoredObject,
)


def plan_cleanup(
    *,
    objects: Inventory,
    protect: Collection[str] | None,
    runs_over: Collection[str],
    leases_over: Collection[str],
    now: datetime,
    policy: CleanupPolicy | None = None,
) -> CleanupPlan:
    """Decide what goes and what stays.

    Args:
        objects: The store, from `include.storage.inventory.take_inventory` with the same ``runs_over``.
        protect: Keys or URIs of whatever something else refers to: each protects itself, what lies below it, and the
            checkpoint around it. None = the references could not be read, then nothing goes.
        runs_over: Prefixes ``runs/<workload>/<run>`` whose training has ended; other runs are left alone.
        leases_over: Ids of leases that ended long enough ago.
        now: Aware time of the plan.
        policy: What is kept.
    """
    if protect is None:
        kept = Kept(prefix="", reason="the references could not be read, so nothing is proven to be unused")
        return _plan((), (), (kept,), objects=objects, now=now)
    policy = policy or CleanupPolicy()
    references = _References(protect)
    decisions = [
        *_checkpoints(objects, references, runs_over=runs_over, keep_last=policy.keep_last),
        *_leases(objects, references, leases_over=leases_over),
    ]
    missing = _missing_blobs(objects)
    from_quarantine = [
        _quarantined(batch, references, missing=missing, before=now - timedelta(days=policy.quarantine_days))
        for batch in objects.quarantines
    ]
    return _plan(
        tuple(d for d in decisions if isinstance(d, Planned)),
        tuple(d for d in from_quarantine if isinstance(d, Planned)),
        tuple(d for d in decisions + from_quarantine if isinstance(d, Kept)),
        objects=objects,
        now=now,
    )


def _plan(
    moves: tuple[Planned, ...],
    purges: tuple[Planned, ...],
    kept: tuple[Kept, ...],
    *,
    objects: Inventory,
    now: datetime,
) -> CleanupPlan:
    keys = sorted(found.key for item in moves for found in item.objects)
    return CleanupPlan(
        # The time of the plan keeps two batches of equal keys apart, so that no copy replaces an older one.
        batch=digest(iso(now), *keys),
        to_quarantine=moves,
        to_delete=purges,
        kept=kept,
        total_bytes=objects.total_bytes,
    )


class _References:
    """Answers whether a directory lies at, above or below something that is referred to.

    Entries may be keys or URIs of any spelling of the store's root, so they are compared by their trailing parts.
    """

    def __init__(self, entries: Collection[str]) -> None:
        self._tails: set[str] = set()
        self._paths: set[str] = set()
        for entry in entries:
            parts = [part for part in entry.split("/") if part]
            for start in range(len(parts)):
                self._tails.add("/".join(parts[start:]))
                self._paths.update("/".join(parts[start:end]) for end in range(start + 1, len(parts) + 1))

    def cover(self, path: str) -> bool:
        """Whether the path must stay."""
        above = [str(parent) for parent in PurePosixPath(path).parents]
        return path in self._paths or any(parent in self._tails for parent in above)


def _checkpoints(
    objects: Inventory, references: _References, *, runs_over: Collection[str], keep_last: int
) -> Iterator[Planned | Kept]:
    for run in sorted({checkpoint.run for checkpoint in objects.checkpoints} | objects.blobs.keys()):
        mine = [checkpoint for checkpoint in objects.checkpoints if checkpoint.run == run]
        if run not in set(runs_over):
            yield Kept(prefix=run, reason="the run is not known to be over")
            continue
        newest = sorted((c for c in mine if c.valid), key=lambda c: (c.step, c.attempt), reverse=True)[:keep_last]
        decisions = [(c, _checkpoint(c, references, newest=[c.prefix for c in newest])) for c in mine]
        yield from (decision for _, decision in decisions)
        # After the checkpoints, which must be gone before what they name.
        if run in objects.blobs:
            staying = [c for c, decision in decisions if isinstance(decision, Kept)]
            yield _blobs(run, objects.blobs[run], references, staying=staying, commits=_commits(mine))


def _commits(checkpoints: list[StoredCheckpoint]) -> frozenset[str]:
    return frozenset(f"{checkpoint.prefix}/{COMMIT}" for checkpoint in checkpoints if checkpoint.committed)


def _blobs(
    run: str,
    found: tuple[StoredObject, ...],
    references: _References,
    *,
    staying: list[StoredCheckpoint],
    commits: frozenset[str],
) -> Planned | Kept:
    prefix = f"{run}/checkpoints/blobs"
    live: set[str] = set()
    for checkpoint in staying:
        if checkpoint.blobs is None:
            return Kept(prefix=prefix, reason=f"it is not known which of them {checkpoint.prefix} needs")
        live |= checkpoint.blobs
    unused = tuple(blob for blob in found if blob.key not in live and not references.cover(blob.key))
    if not unused:
        return Kept(prefix=prefix, reason="checkpoints that stay need all of them")
    return Planned(prefix=prefix, reason="no checkpoint that stays needs them", objects=unused, commits=commits)


def _checkpoint(checkpoint: StoredCheckpoint, references: _References, *, newest: list[str]) -> Planned | Kept:
    prefix = checkpoint.prefix
    if references.cover(prefix):
        return Kept(prefix=prefix, reason="something refers to it")
    if not checkpoint.committed:
        return Planned(prefix=prefix, reason="never committed", objects=checkpoint.objects, uncommitted=True)
    if prefix in newest:
        return Kept(prefix=prefix, reason="the newest valid checkpoints of the run stay")
    if not newest:
        return Kept(prefix=prefix, reason="no checkpoint of the run is known to be valid beside it")
    reason = "damaged" if checkpoint.valid is False else "a newer valid checkpoint of the run stays"
    # The commit goes first: a directory that is half gone must not look like a checkpoint.
    commit_first = sorted(checkpoint.objects, key=lambda o: (not o.key.endswith(f"/{COMMIT}"), o.key))
    return Planned(prefix=prefix, reason=reason, objects=tuple(commit_first))


def _leases(objects: Inventory, references: _References, *, leases_over: Collection[str]) -> Iterator[Planned | Kept]:
    over = set(leases_over)
    for lease_id, found in objects.leases.items():
        prefix = f"leases/{lease_id}"
        if lease_id not in over:
            yield Kept(prefix=prefix, reason="the lease is not known to be over")
        elif references.cover(prefix):
            yield Kept(prefix=prefix, reason="something refers to it")
        else:
            yield Planned(prefix=prefix, reason="control files of a lease that is over", objects=found)


def _missing_blobs(objects: Inventory) -> frozenset[str]:
    """Keys of blobs that a checkpoint names and that are not in their place."""
    there = {blob.key for found in objects.blobs.values() for blob in found}
    named = {key for checkpoint in objects.checkpoints for key in checkpoint.blobs or ()}
    return frozenset(named - there)


def _quarantined(
    batch: Quarantine, references: _References, *, missing: frozenset[str], before: datetime
) -> Planned | Kept:
    prefix = f"quarantine/{batch.batch}"
    if batch.since is None:
        return Kept(prefix=prefix, reason="its manifest is missing or damaged, so its age is unknown")
    if batch.since > before:
        return Kept(prefix=prefix, reason="its wait is not over")
    if any(_needed(batch, found, references) for found in batch.objects):
        return Kept(prefix=prefix, reason="something refers to what it holds; copy it back")
    if any(batch.original(found.key) in missing for found in batch.objects):
        return Kept(prefix=prefix, reason="a checkpoint names blobs that it holds; copy them back")
    # The manifest goes last: without it the rest would stay for ever.
    manifest_last = sorted(batch.objects, key=lambda o: (o.key == f"{prefix}/{MANIFEST}", o.key))
    return Planned(prefix=prefix, reason="its wait in quarantine is over", objects=tuple(manifest_last))


def _needed(batch: Quarantine, found: StoredObject, references: _References) -> bool:
    # What refers to a file of a checkpoint needs the whole checkpoint: look at the directory around it as well.
    original = batch.original(found.key)
    return references.cover(original) or references.cover(str(PurePosixPath(original).parent))
