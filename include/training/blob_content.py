"""Tensors as the bytes of one safetensors file, without a copy: a header, then views of their memory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from include.core.contracts.checkpoint import CheckpointBlob
from include.core.errors import UserError

# Names of the safetensors format, https://github.com/huggingface/safetensors#format.
_TYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.uint16: "U16",
    torch.uint32: "U32",
    torch.uint64: "U64",
    torch.bool: "BOOL",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
}
_LENGTH_BYTES, _ALIGNMENT = 8, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobContent:
    """The bytes of a blob before they are written.

    Attributes:
        blob: Digest and size.
        parts: Header and tensors; the views are valid as long as the tensors are not changed.
        starts: First byte of each tensor in the file, in the order in which they were given.
    """

    blob: CheckpointBlob
    parts: tuple[memoryview, ...]
    starts: tuple[int, ...]


def compose(tensors: Sequence[tuple[str, torch.Tensor]]) -> BlobContent:
    """Lay tensors out as one safetensors file and compute its digest; the hashing leaves other threads running.

    Args:
        tensors: Name and contiguous CPU tensor, the names distinct.

    Raises:
        UserError: safetensors has no such element type.
    """
    # By falling element size: every tensor is then aligned to its elements.
    order = sorted(range(len(tensors)), key=lambda i: (-tensors[i][1].element_size(), tensors[i][0]))
    views = [_bytes(tensors[i][1]) for i in order]
    header = _header([tensors[i] for i in order])
    starts, at = [0] * len(tensors), len(header)
    total = hashlib.sha256(header)
    for i, view in zip(order, views, strict=True):
        starts[i] = at
        at += view.nbytes
        total.update(view)
    return BlobContent(
        blob=CheckpointBlob(sha256=total.hexdigest(), size_bytes=at),
        parts=(memoryview(header), *views),
        starts=tuple(starts),
    )


def refuse_unstorable(tensors: Iterable[tuple[str, torch.Tensor]]) -> None:
    """Refuse what no checkpoint can hold, before anything is trained that could not be saved.

    Raises:
        UserError: safetensors has no such element type.
    """
    for name, tensor in tensors:
        if tensor.dtype not in _TYPES:
            raise UserError(
                "a checkpoint cannot hold tensors of this type",
                where=name,
                found=str(tensor.dtype),
                allowed=", ".join(sorted(str(dtype).removeprefix("torch.") for dtype in _TYPES)),
                todo="keep a complex buffer as two real ones, or register it with persistent=False",
            )


def _header(tensors: Sequence[tuple[str, torch.Tensor]]) -> bytes:
    entries, at = {}, 0
    refuse_unstorable(tensors)
    for name, tensor in tensors:
        end = at + tensor.nbytes
        entries[name] = {"dtype": _TYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    return len(text).to_bytes(_LENGTH_BYTES, "little") + text


def _bytes(tensor: torch.Tensor) -> memoryview:
    return memoryview(tensor.reshape(-1).view(torch.uint8).numpy())
