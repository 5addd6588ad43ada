"""Checkpoints that cost the training a copy in memory: everything else happens in the background.

A save copies the state and returns. A thread then hashes it, writes the blobs that the run does not have yet to the
local disk and to the object store, and commits by COMMIT.json, created last and only if absent. What has no commit does
not exist for anyone.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.metadata import MetadataIndex

from include.core.errors import StoreError
from include.core.store import ObjectStore
from include.training.blob_layout import CheckpointLayout, StoredChunk
from include.training.blob_reader import BlobReader
from include.training.blob_store import BlobStore
from include.training.blob_writer import BlobWriter
from include.training.checkpoint_cache import LocalCopies
from include.training.checkpoint_planning import StagedPlanner, load_blobs, save_blobs
from include.training.checkpoint_pruning import Pruning
from include.training.checkpoint_publishing import Publisher, RivalError
from include.training.checkpoint_ranks import Ranks
from include.training.checkpoint_search import CheckpointSearch, FoundCheckpoint
from include.training.checkpoint_staging import Staged, Stager
from include.training.commit import checkpoint_name
from include.training.retention import RetentionPolicy

__all__ = ["Checkpointer", "FoundCheckpoint", "RivalError"]

_log = logging.getLogger("plimsoll.checkpoint")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """What a checkpointer is made of once its workers have met."""

    ranks: Ranks
    blobs: BlobStore
    publisher: Publisher
    local: LocalCopies
    pruning: Pruning


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
    _places: dict[MetadataIndex, StoredChunk] = field(default_factory=dict)
    _thread: threading.Thread | None = None
    _failure: StoreError | None = None
    _parts: _Parts | None = None

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
        self._join()  # here and not in the background: all workers do it together
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
        parts = self._join()
        search = CheckpointSearch(
            blobs=parts.blobs, ranks=parts.ranks, config=self.config, fingerprint=self.fingerprint
        )
        for name, found in search.candidates():
            if isinstance(found, FoundCheckpoint):
                self.last_uri, self.last_step = found.uri, found.step
                parts.blobs.trusted = {blob.sha256 for blob in found.blobs}
                names = [blob.name for blob in found.blobs]
                parts.local.begin_with(found.name, names, alone=parts.ranks.local_rank == 0)
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
        group = self._join().ranks.group
        try:
            load_blobs(into, reader=BlobReader(found.layout, found.folder), group=group)
        except CheckpointException as error:  # derives from BaseException: `except Exception` misses it
            raise StoreError(f"cannot load checkpoint {found.name}: {_causes(error)}") from error
        except (RuntimeError, ValueError) as error:
            raise StoreError(f"cannot load checkpoint {found.name}: {error}") from error

    def _join(self) -> _Parts:
        if self._parts is None:
            ranks = Ranks.join()
            shared: dict[str, Any] = {"store": self.store, "prefix": self.prefix}
            self._parts = _Parts(
                ranks=ranks,
                blobs=BlobStore(**shared, cache=self.cache, patience_s=self.patience_s),
                publisher=Publisher(
                    **shared,
                    cache=self.cache,
                    world=ranks.world,
                    config=self.config,
                    fingerprint=self.fingerprint,
                    patience_s=self.patience_s,
                ),
                local=LocalCopies(cache=self.cache),
                pruning=Pruning(**shared, attempt=self.attempt, policy=self.retention, referenced=self.referenced),
            )
        return self._parts

    def _wait(self) -> None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _save(self, staged: Staged, step: int, metric: float | None, began: float) -> None:
        """The background's part of a save; nothing leaves it but the outcome."""
        name = checkpoint_name(step=step, attempt=self.attempt)
        try:
            self._write(staged, name=name, metric=metric)
        except (Exception, CheckpointException) as error:  # noqa: BLE001 - nobody sees it leave the thread: `settle` raises
            self._failure = _failure(error, name=name, damaged={skipped for skipped, _ in self.skipped})
            self._join().blobs.give_up()
        else:
            self._failure = None
            self.last_uri, self.last_step = self.store.uri(f"{self.prefix}/{name}"), step
            self.save_seconds.append(time.monotonic() - began)
            _log.info("checkpoint step=%d committed in %.3f s: %s", step, self.save_seconds[-1], self.last_uri)
            self._tidy(name)
            return
        _log.error("%s; the last committed step is %d", self._failure, self.last_step)

    def _write(self, staged: Staged, *, name: str, metric: float | None) -> None:
        parts = self._join()

        def commit(layout: CheckpointLayout, places: Iterable[StoredChunk]) -> None:
            self.bytes_written += parts.publisher.publish(name, layout, places, metric=metric)

        writer = BlobWriter(
            blobs=parts.blobs,
            frozen=staged.frozen,
            known={index: place for index, place in self._places.items() if index.fqn in staged.unchanged},
            commit=commit,
        )
        save_blobs(dict(staged.described), writer=writer, planner=StagedPlanner(staged), group=parts.ranks.group)
        self._places = writer.written.places
        self.bytes_written += writer.written.bytes_written
        self._stager.committed()
        parts.blobs.committed({place.blob.sha256 for place in self._places.values()})

    def _tidy(self, name: str) -> None:
        """Make room on the local disk and in the store. A failure here takes nothing from the commit."""
        parts = self._join()
        try:
            parts.local.add(name, {place.blob.name for place in self._places.values()})
            if parts.ranks.rank == 0:
                parts.pruning.prune(last_valid=name, damaged={skipped for skipped, _ in self.skipped})
        except Exception as error:  # noqa: BLE001 - any failure: the next save tries again
            _log.warning("cannot remove old checkpoints: %s: %s", type(error).__name__, error)


def _failure(error: BaseException, *, name: str, damaged: Collection[str]) -> StoreError:
    causes = [cause for cause, _ in error.failures.values()] if isinstance(error, CheckpointException) else [error]
    for cause in causes:
        # A commit of an earlier life of this attempt that was found to be damaged is no rival's; its name is taken.
        if isinstance(cause, RivalError) and name not in damaged:
            return cause
    text = _causes(error) if isinstance(error, CheckpointException) else f"{type(error).__name__}: {error}"
    failure = StoreError(f"cannot save checkpoint {name}: {text}")
    failure.__cause__ = error
    return failure


def _causes(error: CheckpointException) -> str:
    texts = {f"{type(cause).__name__}: {cause}" for cause, _ in error.failures.values()}
    return "; ".join(sorted(texts))
