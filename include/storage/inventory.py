"""Reads the store: which checkpoints, control files and quarantined batches are there, and which are valid.

Whatever cannot be read raises: a plan is never made from half an inventory.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections import defaultdict
from collections.abc import Collection
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from pydantic import ValidationError

from include.core.contracts.checkpoint import CheckpointCommit
from include.core.ids import content_digest
from include.core.json_codec import from_json, to_json
from include.core.store import ObjectStore, file_digest
from include.storage.facts import COMMIT, MANIFEST, QUARANTINE, Inventory, Quarantine, StoredCheckpoint, StoredObject

_CHECKPOINT = re.compile(r"^((runs/[^/]+/[^/]+)/checkpoints/step-(\d+)-(\d+))/")
_BLOB = re.compile(r"^(runs/[^/]+/[^/]+)/checkpoints/blobs/[^/]+$")
_LEASE = re.compile(r"^leases/([^/]+)/")
_BATCH = re.compile(rf"^{QUARANTINE}/([^/]+)/")


def take_inventory(store: ObjectStore, *, runs_over: Collection[str], keep_last: int = 1) -> Inventory:
    """List the store and find the newest valid checkpoints of the runs that are over.

    Checkpoints are verified by digest, newest first, until ``keep_last`` valid ones are found: at least these must
    stay, so at least these must be known to be good. Runs with nothing to spare are not downloaded.

    Args:
        store: The object store.
        runs_over: Prefixes ``runs/<workload>/<run>`` of runs whose training has ended.
        keep_last: Valid checkpoints to find per run.
    """
    objects = [StoredObject(key=key, size_bytes=size) for key, size in store.list()]
    checkpoints = _checkpoints(objects)
    blobs = {run: tuple(found) for run, found in _grouped(objects, _BLOB).items()}
    for run in runs_over:
        _read_commits(store, checkpoints, run=run)
        _verify_newest(store, checkpoints, run=run, wanted=keep_last, blobs=blobs.get(run, ()))
    return Inventory(
        total_bytes=sum(found.size_bytes for found in objects if not _BATCH.match(found.key)),
        checkpoints=tuple(checkpoints.values()),
        leases={name: tuple(found) for name, found in _grouped(objects, _LEASE).items()},
        quarantines=tuple(_quarantine(store, name, found) for name, found in _grouped(objects, _BATCH).items()),
        blobs=blobs,
    )


def _grouped(objects: list[StoredObject], pattern: re.Pattern[str]) -> dict[str, list[StoredObject]]:
    groups: defaultdict[str, list[StoredObject]] = defaultdict(list)
    for found in sorted(objects, key=lambda o: o.key):
        match = pattern.match(found.key)
        if match:
            groups[match[1]].append(found)
    return groups


def _checkpoints(objects: list[StoredObject]) -> dict[str, StoredCheckpoint]:
    checkpoints = {}
    for prefix, found in _grouped(objects, _CHECKPOINT).items():
        match = _CHECKPOINT.match(f"{prefix}/")
        assert match is not None
        checkpoints[prefix] = StoredCheckpoint(
            prefix=prefix,
            run=match[2],
            step=int(match[3]),
            attempt=int(match[4]),
            committed=any(o.key == f"{prefix}/{COMMIT}" for o in found),
            valid=None,
            objects=tuple(found),
        )
    return checkpoints


def _read_commits(store: ObjectStore, checkpoints: dict[str, StoredCheckpoint], *, run: str) -> None:
    for checkpoint in [c for c in checkpoints.values() if c.run == run and c.committed]:
        commit = _read_commit(store.get(f"{checkpoint.prefix}/{COMMIT}"))
        if commit is not None:
            keys = frozenset(f"{run}/checkpoints/blobs/{blob.name}" for blob in commit.blobs)
            checkpoints[checkpoint.prefix] = replace(checkpoint, blobs=keys)


def _verify_newest(
    store: ObjectStore,
    checkpoints: dict[str, StoredCheckpoint],
    *,
    run: str,
    wanted: int,
    blobs: tuple[StoredObject, ...],
) -> None:
    committed = [c for c in checkpoints.values() if c.run == run and c.committed]
    if len(committed) <= wanted:
        return
    valid = 0
    for checkpoint in sorted(committed, key=lambda c: (c.step, c.attempt), reverse=True):
        checked = replace(checkpoint, valid=_is_valid(store, checkpoint, blobs=blobs))
        checkpoints[checkpoint.prefix] = checked
        valid += bool(checked.valid)
        if valid == wanted:
            return


def _is_valid(store: ObjectStore, checkpoint: StoredCheckpoint, *, blobs: tuple[StoredObject, ...]) -> bool:
    commit = _read_commit(store.get(f"{checkpoint.prefix}/{COMMIT}"))
    if commit is None or (commit.step, commit.attempt) != (checkpoint.step, checkpoint.attempt):
        return False
    sizes = {found.key: found.size_bytes for found in (*checkpoint.objects, *blobs)}
    needed = [(f"{checkpoint.prefix}/{file.name}", file.size_bytes, file.sha256) for file in commit.files]
    shared = f"{checkpoint.run}/checkpoints/blobs"
    needed += [(f"{shared}/{blob.name}", blob.size_bytes, blob.sha256) for blob in commit.blobs]
    if any(sizes.get(key) != size_bytes for key, size_bytes, _ in needed):
        return False
    with tempfile.TemporaryDirectory(prefix="plimsoll-verify-") as folder:
        path = Path(folder) / "file"
        for key, _, sha256 in needed:
            store.download(key, path)
            if file_digest(path) != sha256:
                return False
    return True


def _read_commit(data: bytes | None) -> CheckpointCommit | None:
    try:
        commit = from_json(CheckpointCommit, json.loads(data or b""))
    except (ValueError, ValidationError):
        return None
    return commit if commit.seal == content_digest(to_json(replace(commit, seal="")), length=64) else None


def _quarantine(store: ObjectStore, batch: str, found: list[StoredObject]) -> Quarantine:
    data = store.get(f"{QUARANTINE}/{batch}/{MANIFEST}")
    return Quarantine(batch=batch, since=_since(data), objects=tuple(found))


def _since(data: bytes | None) -> datetime | None:
    try:
        since = datetime.fromisoformat(json.loads(data or b"")["quarantined_at"])
    except (ValueError, KeyError, TypeError):
        return None
    return since if since.tzinfo is not None else None
