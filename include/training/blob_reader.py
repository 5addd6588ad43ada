"""Reads parts of tensors from checked blobs on the local disk, as many of them as this worker's shards need."""

from __future__ import annotations

import mmap
import os
from collections import defaultdict
from pathlib import Path

import torch
from torch.distributed.checkpoint.metadata import Metadata, MetadataIndex
from torch.distributed.checkpoint.planner import LoadPlan, LoadPlanner, ReadItem
from torch.distributed.checkpoint.storage import StorageReader
from torch.futures import Future
from typing_extensions import override

from include.training.blob_layout import CheckpointLayout, ChunkPlace, rebuild


class BlobReader(StorageReader):
    """Storage reader of one checkpoint.

    Args:
        layout: Where each tensor lies.
        folder: Local folder with all its blobs, their digests already checked.
    """

    def __init__(self, layout: CheckpointLayout, folder: Path) -> None:
        super().__init__()
        self._metadata, self._folder = rebuild(layout), folder

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Nothing is kept between loads."""

    def read_metadata(self) -> Metadata:
        """Torch's description of the checkpoint."""
        return self._metadata

    @override
    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool) -> None:
        """Nothing depends on the rank."""

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """The plan as it is."""
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """The plans as they are."""
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Copy all parts into the planner's tensors, one blob open at a time."""
        by_blob: defaultdict[str, list[ReadItem]] = defaultdict(list)
        for item in plan.items:
            by_blob[self._place(item.storage_index).blob].append(item)
        for blob, items in by_blob.items():
            with (self._folder / f"{blob}.safetensors").open("rb") as file:
                # A private mapping: torch wants memory that it may write to, and nothing of it reaches the file.
                data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
            for item in items:
                target = planner.resolve_tensor(item).detach()
                target.copy_(self._part(item, data))
                planner.commit_tensor(item, target)
        future: Future[None] = Future()
        future.set_result(None)
        return future

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str] | None) -> bool:
        """Checkpoints are not named by paths here."""
        return checkpoint_id is None

    def _place(self, index: MetadataIndex) -> ChunkPlace:
        place: ChunkPlace = self._metadata.storage_data[MetadataIndex(index.fqn, index.offset)]
        return place

    def _part(self, item: ReadItem, data: mmap.mmap) -> torch.Tensor:
        place = self._place(item.storage_index)
        dtype = self._metadata.state_dict_metadata[item.storage_index.fqn].properties.dtype
        count = torch.Size(place.shape).numel()
        if count == 0:
            return torch.empty(place.shape, dtype=dtype)
        tensor = torch.frombuffer(data, dtype=dtype, count=count, offset=place.at).view(place.shape)
        for dim, (start, length) in enumerate(zip(item.storage_offsets, item.lengths, strict=True)):
            tensor = tensor.narrow(dim, start, length)
        return tensor
