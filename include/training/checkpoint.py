"""Checkpoints that cost the training a copy in memory: everything else happens in the background.

A save copies the state and returns. A thread then hashes it, writes the blobs that the run does not have yet to the
local disk and to the object store, and commits by COMMIT.json, created last and only if absent. What has no commit does
not exist for anyone.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import threading
import time
import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.metadata import MetadataIndex

from include.core.contracts.checkpoint import CheckpointCommit, CheckpointFile
from include.core.errors import StoreError
from include.core.json_codec import to_json
from include.core.store import ObjectStore
from include.training.blob_layout import LAYOUT, CheckpointLayout, StoredChunk, blobs_of
from include.training.blob_reader import BlobReader
from include.training.blob_store import BLOBS, BlobStore, patiently
from include.training.blob_writer import BlobWriter
from include.training.checkpoint_planning import StagedPlanner, load_blobs, save_blobs
from include.training.checkpoint_pruning import Pruning
from include.training.checkpoint_ranks import Ranks
from include.training.checkpoint_search import CheckpointSearch, FoundCheckpoint
from include.training.checkpoint_staging import Staged, Stager
from include.training.commit import COMMIT, checkpoint_name, seal
from include.training.retention import RetentionPolicy

__all__ = ["Checkpointer", "FoundCheckpoint", "RivalError"]

_log = logging.getLogger("plimsoll.checkpoint")
_KEPT_LOCALLY = 2


class RivalError(StoreError):
    """Another process runs the same attempt: going on would be work for nothing."""


@dataclass(slots=True, kw_only=True)
class Checkpointer:
    """Checkpoints of one attempt of one run, as one of its workers sees them.

    Every worker has its own and calls the same methods in the same order.

    Attributes:
        store: The object store.
        prefix: ``<run prefix>/checkpoints``.
        cache: Local folder for files on their way, shared by the workers of a machine.
        attempt: Number of this attempt.
        config: Hash of the configuration.
        fingerprint: Fingerprint of the dataset.
        retention: Which checkpoints stay while the run goes on.
        referenced: Names or URIs of checkpoints that something refers to.
        patience_s: Seconds for which a save goes on asking a store that does not answer.
        skipped: Checkpoints passed over by `newest`, with reasons.
        save_seconds: Seconds of each save, from state to commit.
        stall_s: Seconds for which saving has held up the training.
        bytes_written: Bytes that this worker sent to the store.
        last_uri: The last committed checkpoint.
        last_step: Its step.
    """

    store: ObjectStore
    prefix: str
    cache: Path
    attempt: int
    config: str
    fingerprint: str
    retention: RetentionPolicy = field(default_factory=RetentionPolicy)
    referenced: Collection[str] = ()
    patience_s: float = 90.0
    skipped: list[tuple[str, str]] = field(default_factory=list)
    save_seconds: list[float] = field(default_factory=list)
    stall_s: float = 0.0
    bytes_written: int = 0
    last_uri: str = ""
    last_step: int = 0
    _stager: Stager = field(default_factory=Stager)
    _writer: str = field(default_factory=lambda: uuid.uuid4().hex)
    _places: dict[MetadataIndex, StoredChunk] = field(default_factory=dict)
    _local: list[tuple[str, frozenset[str]]] = field(default_factory=list)
    _thread: threading.Thread | None = None
    _failure: StoreError | None = None
    _ranks: Ranks | None = None
    _blobs: BlobStore | None = None
    _pruning: Pruning | None = None

    def save(self, tensors: Mapping[str, torch.Tensor], *, step: int, metric: float | None = None) -> None:
        """Copy the state and commit it in the background. A save that still runs is waited for first.

        A save that fails is logged and forgotten when a later one works: the earlier commits are as they were.

        Args:
            tensors: Tensors and DTensors by name.
            step: Optimizer steps done.
            metric: Validation metric of this state, larger is better.

        Raises:
            RivalError: Another process runs the same attempt.
        """
        began = time.monotonic()
        self._wait()
        if isinstance(self._failure, RivalError):
            raise self._failure
        self._join()
        staged = self._stager.stage(tensors)
        self._thread = threading.Thread(
            target=self._save, args=(staged, step, metric, began), name=f"checkpoint-{step}", daemon=True
        )
        self._thread.start()
        self.stall_s += time.monotonic() - began

    def settle(self) -> None:
        """Wait until the last save is committed.

        Raises:
            StoreError: It could not be.
        """
        began = time.monotonic()
        self._wait()
        self.stall_s += time.monotonic() - began
        if self._failure is not None:
            raise self._failure

    def newest(self) -> FoundCheckpoint | None:
        """The newest committed and valid checkpoint of any attempt, with its files on the local disk.

        Raises:
            UserError: It belongs to another configuration or to other data.
        """
        ranks, blobs = self._join()
        search = CheckpointSearch(blobs=blobs, ranks=ranks, config=self.config, fingerprint=self.fingerprint)
        for name, found in search.candidates():
            if isinstance(found, FoundCheckpoint):
                self._resume_from(found)
                return found
            self.skipped.append((name, found))
            _log.warning("checkpoint %s skipped: %s", name, found)
        return None

    def load(self, found: FoundCheckpoint, into: dict[str, torch.Tensor]) -> None:
        """Fill tensors from a checkpoint, whatever the number of workers that wrote it.

        Args:
            found: From `newest`.
            into: Tensors and DTensors by name, filled in place; each worker gets the parts that it holds.

        Raises:
            StoreError: The checkpoint lacks one of them, or has another shape for it.
        """
        ranks, _ = self._join()
        try:
            load_blobs(into, reader=BlobReader(found.layout, found.folder), group=ranks.group)
        except CheckpointException as error:  # derives from BaseException: `except Exception` misses it
            raise StoreError(f"cannot load checkpoint {found.name}: {_causes(error)}") from error
        except (RuntimeError, ValueError) as error:
            raise StoreError(f"cannot load checkpoint {found.name}: {error}") from error

    def _join(self) -> tuple[Ranks, BlobStore]:
        """Workers and blobs, from the first call on that all workers make together."""
        if self._ranks is None or self._blobs is None:
            self._ranks = Ranks.join()
            self._blobs = BlobStore(store=self.store, prefix=self.prefix, cache=self.cache, patience_s=self.patience_s)
        return self._ranks, self._blobs

    def _wait(self) -> None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _save(self, staged: Staged, step: int, metric: float | None, began: float) -> None:
        """The background's part of a save; nothing leaves it but the outcome."""
        name = checkpoint_name(step=step, attempt=self.attempt)
        try:
            self._write(staged, name=name, step=step, metric=metric)
        except (Exception, CheckpointException) as error:  # noqa: BLE001 - nobody sees it leave the thread: `settle` raises
            self._failure = _failure(error, name=name)
        else:
            self._failure = None
            self.last_uri, self.last_step = self.store.uri(f"{self.prefix}/{name}"), step
            self.save_seconds.append(time.monotonic() - began)
            _log.info("checkpoint step=%d committed in %.3f s: %s", step, self.save_seconds[-1], self.last_uri)
            self._tidy(name)
            return
        _log.error("%s; the last committed step is %d", self._failure, self.last_step)

    def _write(self, staged: Staged, *, name: str, step: int, metric: float | None) -> None:
        ranks, blobs = self._join()

        def commit(layout: CheckpointLayout, places: Iterable[StoredChunk]) -> None:
            self._commit(layout, places, name=name, step=step, metric=metric)

        writer = BlobWriter(
            blobs=blobs,
            frozen=staged.frozen,
            known={index: place for index, place in self._places.items() if index.fqn in staged.unchanged},
            commit=commit,
        )
        save_blobs(dict(staged.described), writer=writer, planner=StagedPlanner(staged), group=ranks.group)
        self._places = writer.written.places
        self.bytes_written += writer.written.bytes_written
        self._stager.committed()
        blobs.trusted = {place.blob.sha256 for place in self._places.values()}

    def _commit(
        self,
        layout: CheckpointLayout,
        places: Iterable[StoredChunk],
        *,
        name: str,
        step: int,
        metric: float | None,
    ) -> None:
        """Make the commit, on the first worker, after all blobs are in the store."""
        ranks, _ = self._join()
        data = json.dumps(to_json(layout), separators=(",", ":")).encode()
        _write_bytes(self.cache / name / LAYOUT, data)
        document = seal(
            CheckpointCommit(
                step=step,
                attempt=self.attempt,
                world=ranks.world,
                config_hash=self.config,
                dataset_fingerprint=self.fingerprint,
                files=(CheckpointFile(name=LAYOUT, size_bytes=len(data), sha256=_sha256(data)),),
                blobs=blobs_of(places),
                metric=metric,
                writer=self._writer,
                seal="",
            )
        )
        patiently(lambda: self._publish(name, layout=data, commit=to_json(document)), within_s=self.patience_s)
        self.bytes_written += len(data)

    def _publish(self, name: str, *, layout: bytes, commit: object) -> None:
        base = f"{self.prefix}/{name}"
        if not self.store.exists(f"{base}/{COMMIT}"):
            self.store.put(f"{base}/{LAYOUT}", layout)
        # An answer may have been lost after the object was made, so the writer's token is looked at.
        if not self.store.create_json(f"{base}/{COMMIT}", commit) and self.store.get_json(f"{base}/{COMMIT}") != commit:
            raise RivalError(f"checkpoint {name} is already committed; another process runs the same attempt")
        self.store.sync(f"{base}/{LAYOUT}", f"{base}/{COMMIT}")

    def _resume_from(self, found: FoundCheckpoint) -> None:
        ranks, blobs = self._join()
        self.last_uri, self.last_step = found.uri, found.step
        blobs.trusted = {blob.sha256 for blob in found.blobs}
        self._local = [(found.name, frozenset(blob.name for blob in found.blobs))]
        if ranks.local_rank == 0:
            self._forget_all_but(found)

    def _forget_all_but(self, found: FoundCheckpoint) -> None:
        """What earlier attempts left on this disk is of no use beside the checkpoint to resume from."""
        kept = {blob.name for blob in found.blobs}
        for path in list((self.cache / BLOBS).glob("*.safetensors")):
            if path.name not in kept:
                path.unlink(missing_ok=True)
        for path in list(self.cache.glob("step-*")):
            if path.name != found.name:
                shutil.rmtree(path, ignore_errors=True)

    def _tidy(self, name: str) -> None:
        """Make room on the local disk and in the store. A failure here takes nothing from the commit."""
        ranks, blobs = self._join()
        try:
            self._local.append((name, frozenset(place.blob.name for place in self._places.values())))
            old, self._local = self._local[:-_KEPT_LOCALLY], self._local[-_KEPT_LOCALLY:]
            needed = {blob for _, names in self._local for blob in names}
            for past, names in old:
                blobs.forget(names - needed)
                shutil.rmtree(self.cache / past, ignore_errors=True)
            if ranks.rank == 0:
                self._prune(name)
        except Exception as error:  # noqa: BLE001 - any failure: the next save tries again
            _log.warning("cannot remove old checkpoints: %s: %s", type(error).__name__, error)

    def _prune(self, name: str) -> None:
        self._pruning = self._pruning or Pruning(
            store=self.store,
            prefix=self.prefix,
            attempt=self.attempt,
            policy=self.retention,
            referenced=self.referenced,
        )
        self._pruning.prune(last_valid=name, damaged={skipped for skipped, _ in self.skipped})


def _failure(error: BaseException, *, name: str) -> StoreError:
    causes = [cause for cause, _ in error.failures.values()] if isinstance(error, CheckpointException) else [error]
    for cause in causes:
        if isinstance(cause, RivalError):
            return cause
    text = _causes(error) if isinstance(error, CheckpointException) else f"{type(error).__name__}: {error}"
    failure = StoreError(f"cannot save checkpoint {name}: {text}")
    failure.__cause__ = error
    return failure


def _causes(error: CheckpointException) -> str:
    texts = {f"{type(cause).__name__}: {cause}" for cause, _ in error.failures.values()}
    return "; ".join(sorted(texts))


def _write_bytes(path: Path, data: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    except OSError as error:
        raise StoreError(f"cannot write to the checkpoint cache {path.parent}: {error.strerror}") from error


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
