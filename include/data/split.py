"""Which split a row belongs to: decided by the row's own content, so neither order nor new rows move it.

The hash covers the input columns only. Rows with equal inputs therefore share a split even when their labels differ,
and no split can be answered from another by memory. The one exception to "new rows move nothing": a group of equal rows
that grows too large for a held-out split goes to training as a whole.
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from include.config.data_section import Split

_SALT = "plimsoll"
# Constants of the splitmix64 finaliser: Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
# OOPSLA 2014.
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_NULL = np.uint64(0x6E756C6C6E756C6C)
# A group of equal rows larger than this share of a held-out split would decide its score alone.
HEAVY_SHARE = 0.5

Hashes = npt.NDArray[np.uint64]


def mix(values: Hashes) -> Hashes:
    """Scatter 64-bit values evenly: the finaliser of splitmix64, a bijection, the same on every machine."""
    with np.errstate(over="ignore"):
        values = values + _GAMMA
        values = (values ^ (values >> np.uint64(30))) * _MIX_1
        values = (values ^ (values >> np.uint64(27))) * _MIX_2
    return values ^ (values >> np.uint64(31))


def _hash_bytes(value: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(value, digest_size=8).digest(), "little")


def _hash_numbers(column: pa.Array) -> Hashes:
    numbers = column.to_numpy(zero_copy_only=False).astype("<f8") + 0.0  # -0.0 + 0.0 is 0.0
    numbers[np.isnan(numbers)] = np.nan  # one bit pattern for every null
    return numbers.view("<u8").astype(np.uint64)


def _hash_texts(column: pa.Array) -> Hashes:
    encoded = column.dictionary_encode()
    table = np.array([_hash_bytes(text.encode()) for text in encoded.dictionary.to_pylist()] + [int(_NULL)], np.uint64)
    codes = encoded.indices.fill_null(len(table) - 1).to_numpy(zero_copy_only=False)
    return table[codes]


def _hash_lists(column: pa.ChunkedArray) -> Hashes:
    hashes: list[int] = []
    for chunk in column.chunks:
        if len(chunk):
            rows = chunk.flatten().to_numpy(zero_copy_only=False).reshape(len(chunk), -1)
            hashes.extend(_hash_bytes(row.tobytes()) for row in rows)
    return np.array(hashes, np.uint64)


def _hash_column(column: pa.ChunkedArray) -> Hashes:
    if pa.types.is_list(column.type):
        return _hash_lists(column)
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):  # an empty table keeps its chunks
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], column.type)
    return _hash_texts(array) if pa.types.is_string(array.type) else _hash_numbers(array)


def row_hashes(table: pa.Table, columns: list[str]) -> Hashes:
    """64-bit hash of each row's content.

    Args:
        table: Plain columns: float64, string or list<uint8>.
        columns: Which columns count; their order does not matter.

    Returns:
        uint64 array of shape [rows]; equal rows give equal hashes on every machine.
    """
    total = np.full(table.num_rows, _hash_bytes(_SALT.encode()), np.uint64)
    for name in sorted(columns):
        total = mix(total ^ mix(_hash_column(table[name]) ^ np.uint64(_hash_bytes(name.encode()))))
    return total


def assign_splits(hashes: Hashes, split: Split) -> npt.NDArray[np.str_]:
    """Split of each row.

    Args:
        hashes: Content hash of each row.
        split: Shares of the validation and test splits.

    Returns:
        Array of ``train``, ``validation`` or ``test``, shape [rows]. A group of equal rows that is heavier than half a
        held-out split goes to training.
    """
    position = hashes / 2.0**64
    names = np.full(len(hashes), "train", dtype="<U10")
    names[position < split.test + split.validation] = "validation"
    names[position < split.test] = "test"
    _, group, sizes = np.unique(hashes, return_inverse=True, return_counts=True)
    heavy = sizes > HEAVY_SHARE * min(split.validation, split.test) * len(hashes)
    names[heavy[group]] = "train"
    return names
