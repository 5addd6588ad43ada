"""Removes checkpoints of the run that retention lets go, and the blobs that no commit can reach any more.

Only the newest attempt removes anything, and nothing is removed while any commit of the run cannot be read. A blob goes
when no commit names it, and it was last written either before a commit that named it and is gone now, or so long ago
that no save under way can still need it. All times are the store's own.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from include.core.contracts.checkpoint import CheckpointCommit
from include.core.store import ObjectStore
from include.training.blob_store import BLOBS
from include.training.commit import COMMIT, parse_name, read_commit
from include.training.retention import CommittedCheckpoint, RetentionPolicy, to_keep

_log = logging.getLogger("plimsoll.checkpoint")
# Longer than any save takes, from its first blob to its commit.
ORPHAN_AGE = timedelta(hours=1)


@dataclass(slots=True, kw_only=True)
class Pruning:
    """Retention and collection for one run, as its newest attempt does them after each commit.

    Attributes:
        store: The object store.
        prefix: ``<run prefix>/checkpoints``.
        attempt: This attempt.
        policy: What stays.
        referenced: Names or URIs of checkpoints that something refers to.
    """

    store: ObjectStore
    prefix: str
    attempt: int
    policy: RetentionPolicy
    referenced: Collection[str] = ()
    _commits: dict[str, CheckpointCommit] = field(default_factory=dict)

    def prune(self, *, last_valid: str, damaged: Collection[str]) -> list[str]:
        """Remove what nobody needs.

        Args:
            last_valid: The checkpoint that this attempt has committed last.
            damaged: Checkpoints that were found to be damaged.

        Returns:
            Names of the checkpoints that were removed.
        """
        times = dict(self.store.list_with_times(self.prefix))
        names = self._committed(times)
        if any((parse_name(name) or (0, 0))[1] > self.attempt for name in names):
            _log.info("a newer attempt of this run saves as well, so this one removes nothing")
            return []
        if len(names) <= self.policy.keep_last or not self._read(names):
            return []
        kept = to_keep(
            [self._described(name, last_valid=last_valid, damaged=damaged) for name in names],
            self.policy,
            referenced=self.referenced,
        ) | {last_valid}
        gone = [name for name in names if name not in kept]
        if gone:
            self._collect(gone, kept=[name for name in names if name in kept], times=times)
        return gone

    def _committed(self, times: dict[str, datetime]) -> list[str]:
        parts = [key.removeprefix(f"{self.prefix}/").split("/") for key in times]
        return sorted(part[0] for part in parts if part[-1] == COMMIT and parse_name(part[0]))

    def _read(self, names: list[str]) -> bool:
        """Whether all commits could be read; a commit never changes, so each is read once."""
        for name in names:
            if name not in self._commits:
                data = self.store.get(f"{self.prefix}/{name}/{COMMIT}")
                commit = read_commit(data, name=name) if data is not None else "it is gone"
                if isinstance(commit, str):
                    _log.warning("nothing is removed, since the commit of %s cannot be read: %s", name, commit)
                    return False
                self._commits[name] = commit
        return True

    def _described(self, name: str, *, last_valid: str, damaged: Collection[str]) -> CommittedCheckpoint:
        commit = self._commits[name]
        known = True if name in damaged else False if name == last_valid else None
        return CommittedCheckpoint(
            name=name, step=commit.step, attempt=commit.attempt, metric=commit.metric, damaged=known
        )

    def _collect(self, gone: list[str], *, kept: list[str], times: dict[str, datetime]) -> None:
        live = {blob.sha256 for name in kept for blob in self._commits[name].blobs}
        now = max(times[f"{self.prefix}/{name}/{COMMIT}"] for name in kept)
        written_before: dict[str, datetime] = {}
        for name in gone:
            committed = times[f"{self.prefix}/{name}/{COMMIT}"]
            self._remove_directory(name)
            for blob in self._commits.pop(name).blobs:
                written_before[blob.name] = max(committed, written_before.get(blob.name, committed))
        removed = 0
        for key, written in times.items():
            folder, _, name = key.removeprefix(f"{self.prefix}/").rpartition("/")
            unused = folder == BLOBS and name.removesuffix(".safetensors") not in live
            if unused and written <= written_before.get(name, now - ORPHAN_AGE):
                self.store.delete(key)
                removed += 1
        _log.info("removed %s and %d blobs; %d checkpoints stay", ", ".join(gone), removed, len(kept))

    def _remove_directory(self, name: str) -> None:
        # The commit goes first: a directory that is half gone must not look like a checkpoint.
        self.store.delete(f"{self.prefix}/{name}/{COMMIT}")
        for key, _ in list(self.store.list(f"{self.prefix}/{name}")):
            self.store.delete(key)
