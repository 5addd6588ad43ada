"""Writes a checkpoint that torch has planned as blobs, and makes the commit once all workers have theirs.

A large part of a tensor is a blob of its own. The small ones of a worker share two: one for frozen parameters, which
then never changes, and one for the rest, so that a model of many small tensors does not become many objects.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import torch
from torch.distributed.checkpoint.metadata import Metadata, MetadataIndex
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner, WriteItem
from torch.distributed.checkpoint.storage import StorageWriter, WriteResult
from torch.futures import Future
from typing_extensions import override

from include.core.errors import UserError
from include.training.blob_content import compose
from include.training.blob_layout import CheckpointLayout, StoredChunk, describe
from include.training.blob_store import BlobStore

SMALL_BYTES = 256 * 1024
# They wait for the disk or the network most of the time.
_THREADS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenParts:
    """What one worker wrote, or knew to be there.

    Attributes:
        places: Where each of its parts lies.
        bytes_written: Bytes that went to the store.
    """

    places: dict[MetadataIndex, StoredChunk]
    bytes_written: int


class DivergedError(UserError):
    """The state is not finite, so it is not committed."""


class BlobWriter(StorageWriter):
    """Storage writer of one save.

    Args:
        blobs: Where blobs go.
        frozen: Names of parameters that the optimizer does not change.
        learned: Names of those that it does.
        known: Places of parts that are known to be unchanged since the last commit; their data is not looked at.
        commit: Makes the commit from the layout and all places, on the coordinator.
    """

    def __init__(
        self,
        *,
        blobs: BlobStore,
        frozen: frozenset[str],
        learned: frozenset[str],
        known: dict[MetadataIndex, StoredChunk],
        commit: Callable[[CheckpointLayout, Iterable[StoredChunk]], None],
    ) -> None:
        super().__init__()
        self._blobs, self._frozen, self._known, self._commit = blobs, frozen, known, commit
        self._learned = learned
        self.written = WrittenParts(places={}, bytes_written=0)

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Nothing is kept between saves."""

    @override
    def set_up_storage_writer(self, is_coordinator: bool) -> None:
        """Nothing depends on the rank."""

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """The plan as it is."""
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """The plans as they are."""
        return plans

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Hash and write this worker's parts, several blobs at a time.

        Raises:
            DivergedError: A learned parameter is not finite: a commit of it could never be gone on from.
        """
        self._refuse_divergence(plan, planner)
        places = {item.index: self._known[item.index] for item in plan.items if item.index in self._known}
        groups = self._group([item for item in plan.items if item.index not in places])
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="checkpoint") as pool:
            done = list(pool.map(lambda group: self._write(group, planner), groups))
        self._blobs.sync({place.blob for written in done if written.bytes_written for place in written.places.values()})
        for written in done:
            places |= written.places
        self.written = WrittenParts(places=places, bytes_written=sum(written.bytes_written for written in done))
        future: Future[list[WriteResult]] = Future()
        future.set_result(
            [
                WriteResult(index=index, size_in_bytes=place.blob.size_bytes, storage_data=place)
                for index, place in places.items()
            ]
        )
        return future

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Make the commit: all workers have written all their parts."""
        places = {result.index: result.storage_data for part in results for result in part}
        self._commit(describe(metadata, places), places.values())

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str] | None) -> bool:
        """Checkpoints are not named by paths here."""
        return checkpoint_id is None

    def _refuse_divergence(self, plan: SavePlan, planner: SavePlanner) -> None:
        for item in plan.items:
            name = item.index.fqn
            if name in self._learned and not _is_finite(planner.resolve_data(item)):
                raise DivergedError(
                    "the training diverged: a parameter is not finite after a step whose loss was",
                    where=name,
                    todo="lower training.lr, clip gradients (training.clip_grad_norm), or look for a loss whose "
                    "gradient is infinite, such as the square root of zero; the checkpoints before are as they were",
                )

    def _group(self, items: list[WriteItem]) -> list[list[WriteItem]]:
        large = [[item] for item in items if _size_bytes(item) >= SMALL_BYTES]
        small = [item for item in items if _size_bytes(item) < SMALL_BYTES]
        still = [item for item in small if item.index.fqn in self._frozen]
        moving = [item for item in small if item.index.fqn not in self._frozen]
        # Large ones first: the last blob to be written is then a short one.
        large.sort(key=lambda group: -_size_bytes(group[0]))
        return large + [group for group in (still, moving) if group]

    def _write(self, group: list[WriteItem], planner: SavePlanner) -> WrittenParts:
        content = compose([(_name(item), planner.resolve_data(item)) for item in group])
        written = self._blobs.write(content)
        places = {
            item.index: StoredChunk(blob=content.blob, at=at) for item, at in zip(group, content.starts, strict=True)
        }
        return WrittenParts(places=places, bytes_written=written)


def _is_finite(value: Any) -> bool:  # noqa: ANN401 - torch says tensor or bytes, and there are no bytes here
    # The extremes, and not each element: one pass and no memory. Not a number is an extreme too.
    if not value.is_floating_point() or value.numel() == 0:
        return True
    return bool(torch.isfinite(torch.stack(torch.aminmax(value))).all())


def _size_bytes(item: WriteItem) -> int:
    data = item.tensor_data
    assert data is not None, "a checkpoint holds tensors only"
    return int(torch.Size(data.chunk.sizes).numel() * data.properties.dtype.itemsize)


def _name(item: WriteItem) -> str:
    offset = tuple(item.index.offset or ())
    return f"{item.index.fqn}@{','.join(map(str, offset))}" if any(offset) else item.index.fqn
