"""Checkpoints that cost the training a copy in memory: everything else happens in the background.

A save copies the state and returns. A thread then hashes it, writes the blobs that the run does not have yet to the
local disk and to the object store, and commits by COMMIT.json, created last and only if absent. What has no commit does
not exist for anyone.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch.distributed.checkpoint.api import CheckpointException

from include.core.errors import StoreError
from include.core.store import ObjectStore
from include.training.blob_content import refuse_unstorable
from include.training.blob_reader import BlobReader
from include.training.blob_writer import DivergedError
from include.training.checkpoint_planning import load_blobs
from include.training.checkpoint_publishing import RivalError
from include.training.checkpoint_saving import CheckpointWriter, RunOfCheckpoints, causes_of, failure_of
from include.training.checkpoint_search import CheckpointSearch, FoundCheckpoint
from include.training.checkpoint_staging import Staged, Stager
from include.training.commit import checkpoint_name
from include.training.patience import Patience
from include.training.retention import RetentionPolicy

__all__ = ["Checkpointer", "FoundCheckpoint", "RivalError"]

_log = logging.getLogger("plimsoll.checkpoint")
_LOOK_EVERY_S = 0.5


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
        grace_s: Seconds until this process is killed, None without a notice; asked while a save is tried or waited for.
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
    grace_s: Callable[[], float | None] = lambda: None
    skipped: list[tuple[str, str]] = field(default_factory=list)
    save_seconds: list[float] = field(default_factory=list)
    stall_s: float = 0.0
    bytes_written: int = 0
    last_uri: str = ""
    last_step: int = 0
    _stager: Stager = field(default_factory=Stager)
    _patience: Patience = field(init=False)
    _thread: threading.Thread | None = None
    _failure: StoreError | DivergedError | None = None
    _writer: CheckpointWriter | None = None

    def __post_init__(self) -> None:
        self._patience = Patience(self.patience_s, self.grace_s)

    @property
    def busy(self) -> bool:
        """Whether a save is still under way, for which the next one would wait."""
        return self._thread is not None and self._thread.is_alive()

    def save(self, tensors: Mapping[str, torch.Tensor], *, step: int, metric: float | None = None) -> None:
        """Copy the state and commit it in the background. A save that still runs is waited for first.

        A save that fails is logged and forgotten when a later one works: the earlier commits are as they were.

        Args:
            tensors: Tensors and DTensors by name.
            step: Optimizer steps done.
            metric: Validation metric of this state, larger is better.

        Raises:
            RivalError: Another process runs the same attempt.
            DivergedError: The state of the save before was not finite.
            UserError: A tensor has a type that no checkpoint can hold.
            StoreError: After a notice: the one before did not end in time.
        """
        began = time.monotonic()
        refuse_unstorable(tensors.items())
        self._wait()
        if isinstance(self._failure, RivalError | DivergedError):
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
            DivergedError: It was not, since its state is not finite.
            StoreError: It could not be, or not in time after a notice.
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
        writer = self._join()
        search = CheckpointSearch(
            blobs=writer.blobs, ranks=writer.ranks, config=self.config, fingerprint=self.fingerprint
        )
        for name, found in search.candidates():
            if isinstance(found, FoundCheckpoint):
                self.last_uri, self.last_step = found.uri, found.step
                writer.blobs.trusted = {blob.sha256 for blob in found.blobs}
                names = [blob.name for blob in found.blobs]
                writer.local.begin_with(found.name, names, alone=writer.ranks.local_rank == 0)
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
            raise StoreError(f"cannot load checkpoint {found.name}: {causes_of(error)}") from error
        except (RuntimeError, ValueError) as error:
            raise StoreError(f"cannot load checkpoint {found.name}: {error}") from error

    def _join(self) -> CheckpointWriter:
        if self._writer is None:
            run = RunOfCheckpoints(
                store=self.store,
                prefix=self.prefix,
                cache=self.cache,
                attempt=self.attempt,
                config=self.config,
                fingerprint=self.fingerprint,
                retention=self.retention,
                referenced=self.referenced,
            )
            self._writer = CheckpointWriter.join(run, patience=self._patience)
        return self._writer

    def _wait(self) -> None:
        thread = self._thread
        if thread is None:
            return
        # In slices: a notice may come meanwhile.
        while thread.is_alive() and not self._patience.is_over():
            thread.join(_LOOK_EVERY_S)
        if thread.is_alive():
            raise StoreError(f"{thread.name} does not end in the time that the notice leaves")
        self._thread = None

    def _save(self, staged: Staged, step: int, metric: float | None, began: float) -> None:
        """The background's part of a save; nothing leaves it but the outcome."""
        name, writer = checkpoint_name(step=step, attempt=self.attempt), self._join()
        damaged = {skipped for skipped, _ in self.skipped}
        try:
            self.bytes_written += writer.write(staged, name=name, metric=metric)
        except (Exception, CheckpointException) as error:  # noqa: BLE001 - nobody sees it leave the thread: `settle` raises
            self._failure = failure_of(error, name=name, damaged=damaged)
            writer.blobs.give_up()
            _log.error("%s; the last committed step is %d", self._failure, self.last_step)
            return
        self._stager.committed()
        self._failure = None
        self.last_uri, self.last_step = self.store.uri(f"{self.prefix}/{name}"), step
        self.save_seconds.append(time.monotonic() - began)
        _log.info("checkpoint step=%d committed in %.3f s: %s", step, self.save_seconds[-1], self.last_uri)
        writer.tidy(name, damaged=damaged)
