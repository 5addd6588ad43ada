"""Where each tensor of a checkpoint lies, as JSON: what torch keeps in a pickled ``.metadata`` file.

The layout is turned into torch's own description of a checkpoint when it is read, so torch's planner can cut and join
shards for any other number of workers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from operator import gt

import torch
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)

from include.core.contracts.checkpoint import CheckpointBlob


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkPlace:
    """One rectangular part of a tensor and the bytes that hold it.

    Attributes:
        offsets: Where the part begins in the tensor, per dimension.
        shape: Its extent, per dimension.
        blob: SHA-256 of the blob.
        at: First byte in the blob; the rest follows from shape and type.
    """

    offsets: tuple[int, ...]
    shape: tuple[int, ...]
    blob: str
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorPlace:
    """One tensor: its type without ``torch.``, its whole shape, its parts."""

    dtype: str
    shape: tuple[int, ...]
    chunks: tuple[ChunkPlace, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointLayout:
    """``checkpoints/step-<step>-<attempt>/layout.json``: all tensors by name."""

    tensors: dict[str, TensorPlace]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredChunk:
    """What a worker says of a part that it has written: the blob and the first byte in it."""

    blob: CheckpointBlob
    at: int


def describe(metadata: Metadata, places: dict[MetadataIndex, StoredChunk]) -> CheckpointLayout:
    """The layout of a checkpoint that torch has planned and all workers have written.

    Args:
        metadata: The global plan: type, shape and parts of each tensor.
        places: Where each part was written.
    """
    return CheckpointLayout(
        tensors={
            name: TensorPlace(
                dtype=str(tensor.properties.dtype).removeprefix("torch."),
                shape=tuple(tensor.size),
                chunks=tuple(_place(name, chunk, places) for chunk in tensor.chunks),
            )
            for name, tensor in metadata.state_dict_metadata.items()
        }
    )


def _place(name: str, chunk: ChunkStorageMetadata, places: dict[MetadataIndex, StoredChunk]) -> ChunkPlace:
    stored = places[MetadataIndex(name, chunk.offsets)]
    return ChunkPlace(offsets=tuple(chunk.offsets), shape=tuple(chunk.sizes), blob=stored.blob.sha256, at=stored.at)


def rebuild(layout: CheckpointLayout) -> Metadata:
    """Torch's description of the checkpoint; ``storage_data`` maps each part to its `ChunkPlace`."""
    tensors, places = {}, {}
    for name, tensor in layout.tensors.items():
        tensors[name] = TensorStorageMetadata(
            properties=TensorProperties(dtype=getattr(torch, tensor.dtype)),
            size=torch.Size(tensor.shape),
            chunks=[ChunkStorageMetadata(torch.Size(c.offsets), torch.Size(c.shape)) for c in tensor.chunks],
        )
        places.update({MetadataIndex(name, chunk.offsets): chunk for chunk in tensor.chunks})
    return Metadata(state_dict_metadata=tensors, storage_data=places)


def mistake_in(layout: CheckpointLayout, blobs: Iterable[CheckpointBlob]) -> str | None:
    """Why no tensors can be read by this layout from these blobs, or None.

    A part that reaches beyond its blob, a type that torch does not have, a tensor that is not covered by its parts.
    """
    sizes = {blob.sha256: blob.size_bytes for blob in blobs}
    if not layout.tensors:
        return "it has no tensors"
    for name, tensor in layout.tensors.items():
        dtype = getattr(torch, tensor.dtype, None)
        if not isinstance(dtype, torch.dtype):
            return f"{name} has an unknown type"
        for chunk in tensor.chunks:
            needed = math.prod(chunk.shape) * dtype.itemsize
            if min((chunk.at, *chunk.shape, *chunk.offsets)) < 0 or chunk.at + needed > sizes.get(chunk.blob, -1):
                return f"a part of {name} lies outside of its blob"
            ends = [start + length for start, length in zip(chunk.offsets, chunk.shape, strict=False)]
            if not len(chunk.offsets) == len(chunk.shape) == len(tensor.shape) or any(map(gt, ends, tensor.shape)):
                return f"a part of {name} lies outside of the tensor"
        if sum(math.prod(chunk.shape) for chunk in tensor.chunks) != math.prod(tensor.shape):
            return f"the parts of {name} are not the whole of it"
    return None


def blobs_of(places: Iterable[StoredChunk]) -> tuple[CheckpointBlob, ...]:
    """The blobs of all parts, each once, in the order of their digests."""
    return tuple(sorted({place.blob for place in places}, key=lambda blob: blob.sha256))
