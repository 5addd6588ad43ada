"""Whether a tensor is as it was, at the speed of reading it once, on the device where it is.

Words of 64 bits are multiplied by fixed odd numbers drawn at random and summed modulo 2^64, piece by piece: a change of
a single word always shows, one of several with a probability that no training will ever see the end of (multilinear
hashing, Carter and Wegman, "Universal classes of hash functions", 1979). It is no protection against a forger; what is
stored is named by SHA-256.
"""

from __future__ import annotations

import functools
import hashlib

import torch

_WORD_BYTES = 8
# Words of a piece: on a CPU what its cache holds, elsewhere enough to keep a device busy.
_PIECE_ON_CPU, _PIECE_ELSEWHERE = 2**16, 2**20


def content_digest(value: torch.Tensor) -> bytes:
    """Digest of all bits of a tensor; equal for equal content of the same type and shape on the same kind of device.

    Args:
        value: Any dense tensor.
    """
    total = hashlib.sha256(f"{value.dtype} {tuple(value.shape)}".encode())
    data = value.detach().reshape(-1).view(torch.uint8)
    if data.storage_offset() % _WORD_BYTES or data.data_ptr() % _WORD_BYTES:
        data = data.clone()  # a view into the middle of words
    whole = data.numel() // _WORD_BYTES * _WORD_BYTES
    if whole:
        total.update(_sums(data[:whole].view(torch.int64)).cpu().numpy().tobytes())
    total.update(data[whole:].cpu().numpy().tobytes())
    return total.digest()


def _sums(words: torch.Tensor) -> torch.Tensor:
    """The sum of each piece."""
    weights = _weights(words.device)
    piece = weights.numel()
    product = torch.empty_like(weights)
    sums = torch.zeros(-(-words.numel() // piece), dtype=torch.int64, device=words.device)
    for number, part in enumerate(words.split(piece)):
        size = part.numel()
        sums[number] = torch.mul(part, weights[:size], out=product[:size]).sum()
    return sums


@functools.cache
def _weights(device: torch.device) -> torch.Tensor:
    # A generator of its own: the training's is not touched.
    count = _PIECE_ON_CPU if device.type == "cpu" else _PIECE_ELSEWHERE
    drawn = torch.randint(-(2**63), 2**63 - 1, (count,), generator=torch.Generator().manual_seed(1))
    return (drawn | 1).to(device)
