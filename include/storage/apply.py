"""Applies a clean-up plan: dry by default, quarantine before deletion, one whole copy of each object at any moment."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime

from include.core.clock import iso
from include.core.errors import StoreError
from include.core.store import ObjectStore
from include.storage.facts import (
    COMMIT,
    MANIFEST,
    QUARANTINE,
    CleanupPlan,
    Planned,
    StoredObject,
    count_bytes,
    count_objects,
)
from include.storage.limits import CleanupLimits, check_limits

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupReport:
    """What was done, or would be done in a dry run.

    Attributes:
        dry_run: Whether nothing was touched.
        batch: Quarantine batch, ``quarantine/<batch>/``.
        quarantined_objects: Objects moved to quarantine; their space is free only after their deletion.
        quarantined_bytes: Their size.
        deleted_objects: Objects deleted from quarantine for good.
        deleted_bytes: Their size: the space that is free now.
        skipped: Key -> why it was left, although planned: it changed after the plan.
        store_bytes: Size of the store outside the quarantine when it was planned.
    """

    dry_run: bool
    batch: str
    quarantined_objects: int
    quarantined_bytes: int
    deleted_objects: int
    deleted_bytes: int
    skipped: dict[str, str]
    store_bytes: int


def apply_cleanup(
    store: ObjectStore,
    plan: CleanupPlan,
    *,
    now: datetime,
    limits: CleanupLimits | None = None,
    dry_run: bool = True,
) -> CleanupReport:
    """Move what is planned to quarantine and delete what waited there long enough.

    It stops at the first error of the store; what was moved until then is in quarantine, everything else where it was.

    Args:
        store: The object store.
        plan: The plan.
        now: Aware time from which the quarantine counts.
        limits: How much may go at once.
        dry_run: Touch nothing, report what would go.

    Raises:
        CleanupRefusedError: The plan exceeds the limits; nothing was touched.
        StoreError: A copy is not what it should be; the original is still there.
    """
    check_limits(plan, limits or CleanupLimits())
    if dry_run:
        return _report(plan, moved=plan.to_quarantine, deleted=plan.to_delete, skipped={}, dry_run=True)
    if plan.to_quarantine:
        _write_manifest(store, plan, now=now)
    skipped: dict[str, str] = {}
    moved = tuple(_quarantine(store, plan.batch, item, skipped) for item in plan.to_quarantine)
    for item in plan.to_delete:
        for found in item.objects:
            store.delete(found.key)
        log.info("deleted %s: %s", item.prefix, item.reason)
    return _report(plan, moved=moved, deleted=plan.to_delete, skipped=skipped, dry_run=False)


def _write_manifest(store: ObjectStore, plan: CleanupPlan, *, now: datetime) -> None:
    items = [
        {"prefix": item.prefix, "reason": item.reason, "keys": [found.key for found in item.objects]}
        for item in plan.to_quarantine
    ]
    manifest = {"version": 1, "quarantined_at": iso(now), "items": items}
    # Before the first copy: a batch without a manifest would never be deleted. Applying a plan again finds it.
    store.create_json(f"{QUARANTINE}/{plan.batch}/{MANIFEST}", manifest)


def _quarantine(store: ObjectStore, batch: str, item: Planned, skipped: dict[str, str]) -> Planned:
    """Move one item; returns it with the objects that were moved."""
    moved: list[StoredObject] = []
    if item.uncommitted and store.exists(f"{item.prefix}/{COMMIT}"):
        skipped[item.prefix] = "it was committed after the plan"
    elif item.commits is not None and not _commits_of(store, item.prefix) <= item.commits:
        skipped[item.prefix] = "a checkpoint was committed after the plan"
    else:
        for found in item.objects:
            reason = _move(store, found, to=f"{QUARANTINE}/{batch}/objects/{found.key}")
            if reason is None:
                moved.append(found)
            else:
                skipped[found.key] = reason
        log.info("quarantined %s: %s", item.prefix, item.reason)
    return Planned(prefix=item.prefix, reason=item.reason, objects=tuple(moved))


def _commits_of(store: ObjectStore, blobs: str) -> set[str]:
    """Commits of the run that has these blobs."""
    checkpoints = blobs.rpartition("/")[0]
    return {key for key, _ in store.list(checkpoints) if key.endswith(f"/{COMMIT}")}


def _move(store: ObjectStore, found: StoredObject, *, to: str) -> str | None:
    """Copy, compare, then delete the original; returns why it was left instead."""
    size = store.size(found.key)
    if size is None:
        return "it was already gone"
    if size != found.size_bytes:
        return f"it changed after the plan: {size} instead of {found.size_bytes} bytes"
    store.copy(found.key, to)
    if store.size(to) != size:
        raise StoreError(f"the copy {to} of {found.key} has not {size} bytes; the original stays")
    store.delete(found.key)
    return None


def _report(
    plan: CleanupPlan,
    *,
    moved: tuple[Planned, ...],
    deleted: tuple[Planned, ...],
    skipped: dict[str, str],
    dry_run: bool,
) -> CleanupReport:
    return CleanupReport(
        dry_run=dry_run,
        batch=plan.batch,
        quarantined_objects=count_objects(moved),
        quarantined_bytes=count_bytes(moved),
        deleted_objects=count_objects(deleted),
        deleted_bytes=count_bytes(deleted),
        skipped=skipped,
        store_bytes=plan.total_bytes,
    )
