"""What the background of a save does: blobs, commit, room for the next one. Nothing here touches live tensors."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.metadata import MetadataIndex

from include.core.errors import StoreError
from include.core.store import ObjectStore
from include.training.blob_layout import CheckpointLayout, StoredChunk
from include.training.blob_store import BlobStore
from include.training.blob_writer import BlobWriter, DivergedError
from include.training.checkpoint_cache import LocalCopies
from include.training.checkpoint_planning import StagedPlanner, save_blobs
from include.training.checkpoint_pruning import Pruning
from include.training.checkpoint_publishing import Publisher, RivalError
from include.training.checkpoint_ranks import Ranks
from include.training.checkpoint_staging import Staged
from include.training.patience import Patience
from include.training.retention import RetentionPolicy

_log = logging.getLogger("plimsoll.checkpoint")
# A save tries again itself, and has to hear of a notice in between.
_RETRY_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOfCheckpoints:
    """Which checkpoints these are.

    Attributes:
        store: The object store.
        prefix: ``<run prefix>/checkpoints``.
        cache: Local folder for files on their way, shared by the workers of a machine.
        attempt: Number of this attempt.
        config: Hash of the configuration.
        fingerprint: Fingerprint of the dataset.
        retention: Which checkpoints stay while the run goes on.
        referenced: Names or URIs of checkpoints that something refers to.
    """

    store: ObjectStore
    prefix: str
    cache: Path
    attempt: int
    config: str
    fingerprint: str
    retention: RetentionPolicy
    referenced: Collection[str]


@dataclass(slots=True, kw_only=True)
class CheckpointWriter:
    """Writes one staged state after the other.

    Attributes:
        ranks: The workers, who write together.
        blobs: Store and cache.
        publisher: Makes commits.
        local: What lies on the local disk.
        pruning: Removes what retention lets go.
        places: Where each part of the last commit lies.
    """

    ranks: Ranks
    blobs: BlobStore
    publisher: Publisher
    local: LocalCopies
    pruning: Pruning
    places: dict[MetadataIndex, StoredChunk] = field(default_factory=dict)

    @classmethod
    def join(cls, run: RunOfCheckpoints, *, patience: Patience) -> CheckpointWriter:
        """Meet the other workers; all of them call this, at the same point."""
        ranks = Ranks.join()
        writes = ObjectStore(run.store.url, retry_s=_RETRY_S)
        return cls(
            ranks=ranks,
            blobs=BlobStore(store=run.store, writes=writes, prefix=run.prefix, cache=run.cache, patience=patience),
            publisher=Publisher(
                store=writes,
                prefix=run.prefix,
                cache=run.cache,
                world=ranks.world,
                config=run.config,
                fingerprint=run.fingerprint,
                patience=patience,
            ),
            local=LocalCopies(cache=run.cache),
            pruning=Pruning(
                store=writes,
                prefix=run.prefix,
                attempt=run.attempt,
                policy=run.retention,
                referenced=run.referenced,
            ),
        )

    def write(self, staged: Staged, *, name: str, metric: float | None) -> int:
        """Write what the run does not have yet, and commit.

        Returns:
            Bytes that this worker sent to the store.

        Raises:
            CheckpointException: Any worker failed, where there are several. It derives from BaseException.
            DivergedError: The only worker has a parameter that is not finite; nothing was written.
            StoreError: The only worker failed.
        """
        sent = [0]

        def commit(layout: CheckpointLayout, places: Iterable[StoredChunk]) -> None:
            sent[0] += self.publisher.publish(name, layout, places, metric=metric)

        writer = BlobWriter(
            blobs=self.blobs,
            frozen=staged.frozen,
            learned=staged.learned,
            known={index: place for index, place in self.places.items() if index.fqn in staged.unchanged},
            commit=commit,
        )
        save_blobs(dict(staged.described), writer=writer, planner=StagedPlanner(staged), group=self.ranks.group)
        self.places = writer.written.places
        self.blobs.committed({place.blob.sha256 for place in self.places.values()})
        return sent[0] + writer.written.bytes_written

    def tidy(self, name: str, *, damaged: Collection[str]) -> None:
        """Make room on the local disk and in the store. A failure here takes nothing from the commit."""
        try:
            self.local.add(name, {place.blob.name for place in self.places.values()})
            if self.ranks.rank == 0:
                self.pruning.prune(last_valid=name, damaged=damaged)
        except Exception as error:  # noqa: BLE001 - any failure: the next save tries again
            _log.warning("cannot remove old checkpoints: %s: %s", type(error).__name__, error)


def failure_of(error: BaseException, *, name: str, damaged: Collection[str]) -> StoreError | DivergedError:
    """What a save that failed is called."""
    causes = [cause for cause, _ in error.failures.values()] if isinstance(error, CheckpointException) else [error]
    for cause in causes:
        if isinstance(cause, DivergedError):
            return cause
        # A commit of an earlier life of this attempt that was found to be damaged is no rival's; its name is taken.
        if isinstance(cause, RivalError) and name not in damaged:
            return cause
    text = causes_of(error) if isinstance(error, CheckpointException) else f"{type(error).__name__}: {error}"
    failure = StoreError(f"cannot save checkpoint {name}: {text}")
    failure.__cause__ = error
    return failure


def causes_of(error: CheckpointException) -> str:
    """What went wrong on the workers, each thing once."""
    texts = {f"{type(cause).__name__}: {cause}" for cause, _ in error.failures.values()}
    return "; ".join(sorted(texts))
