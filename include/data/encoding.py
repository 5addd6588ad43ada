"""Prepared rows to arrays: the one place that defines what a model sees, in training and in serving alike.

NumPy only: the model server imports this module.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from include.core.contracts.dataset import SPLITS, DatasetManifest, Feature, Shard
from include.core.errors import DataError
from include.core.store import ObjectStore
from include.data.manifest import read_manifest

# Whoever encodes needs the manifest first, so it can be had from here too.
__all__ = [
    "Inputs",
    "Labels",
    "encode_features",
    "encode_frame",
    "encode_labels",
    "load_split",
    "read_manifest",
    "read_shard",
    "shard_columns",
]

Inputs = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]
_PIXEL_MAX = np.float32(255.0)


def _bad_value(feature: Feature, found: object, allowed: str) -> DataError:
    return DataError(
        "a column cannot be encoded", where=f"column {feature.name!r}", found=str(found)[:200], allowed=allowed
    )


def _numeric(feature: Feature, values: Any) -> Inputs:  # noqa: ANN401 - any sequence
    """Standardised column [rows, 1]; null and NaN become 0, which is the mean."""
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise _bad_value(feature, error, "numbers or null") from error
    if numbers.ndim != 1 or np.isinf(numbers).any():
        raise _bad_value(feature, "infinite or nested values", "one finite number or null per row")
    return np.nan_to_num((numbers - feature.mean) / feature.std)[:, None].astype(np.float32)


def _one_hot(feature: Feature, values: Any) -> Inputs:  # noqa: ANN401 - any sequence
    """One column per category [rows, categories]; null and unknown values are all zero."""
    index = {category: position for position, category in enumerate(feature.categories)}
    positions = np.array([-1 if v is None else index.get(str(v), -1) for v in values], dtype=np.int64)
    out = np.zeros((len(positions), len(feature.categories)), dtype=np.float32)
    known = np.flatnonzero(positions >= 0)
    out[known, positions[known]] = 1.0
    return out


def _scaled_pixels(feature: Feature, values: Any, length: int) -> Inputs:  # noqa: ANN401 - any sequence
    """Pixels in 0..1 [rows, C*H*W]."""
    try:
        pixels = np.asarray(values, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise _bad_value(feature, error, f"{length} numbers from 0 to 255 per row") from error
    if pixels.shape[0] and pixels.size != pixels.shape[0] * length:
        raise _bad_value(feature, f"shape {pixels.shape}", f"{length} numbers from 0 to 255 per row")
    return pixels.reshape(pixels.shape[0], length) / _PIXEL_MAX


def encode_features(columns: Mapping[str, Any], manifest: DatasetManifest) -> Inputs:
    """Encode input columns.

    Args:
        columns: Column name -> values, one per row; further columns are ignored.
        manifest: The dataset the model was trained on.

    Returns:
        float32 array of shape [rows, *manifest.input_shape].

    Raises:
        DataError: A column is missing or cannot be encoded.
    """
    missing = [feature.name for feature in manifest.features if feature.name not in columns]
    if missing:
        raise DataError(
            "input columns are missing",
            found=", ".join(sorted(map(str, columns))[:10]) or "no columns",
            allowed=", ".join(feature.name for feature in manifest.features),
            todo=f"add {', '.join(missing[:10])}",
        )
    lengths = {feature.name: len(columns[feature.name]) for feature in manifest.features}
    if len(set(lengths.values())) > 1:
        raise DataError(
            "columns have different lengths", found=str(lengths)[:300], allowed="one value per row and column"
        )
    blocks = []
    for feature in manifest.features:
        values = columns[feature.name]
        if feature.kind == "pixels":
            blocks.append(_scaled_pixels(feature, values, math.prod(manifest.input_shape)))
        else:
            blocks.append(_numeric(feature, values) if feature.kind == "numeric" else _one_hot(feature, values))
    flat = np.concatenate(blocks, axis=1)
    return flat.reshape(len(flat), *manifest.input_shape)


def encode_labels(values: Any, manifest: DatasetManifest) -> Labels:  # noqa: ANN401 - any sequence
    """Class index of each label, int64 [rows].

    Raises:
        DataError: A label is not one of the classes.
    """
    index = {name: position for position, name in enumerate(manifest.classes)}
    unknown = sorted({str(value) for value in values} - index.keys())
    if unknown:
        raise DataError(
            "unknown labels",
            where=f"column {manifest.label!r}",
            found=", ".join(unknown[:10]),
            allowed=", ".join(manifest.classes[:20]),
        )
    return np.array([index[str(value)] for value in values], dtype=np.int64)


def encode_frame(columns: Mapping[str, Any], manifest: DatasetManifest) -> tuple[Inputs, Labels]:
    """Encode input columns and the label column.

    Returns:
        x as float32 [rows, *manifest.input_shape] and y as int64 [rows].

    Raises:
        DataError: A column is missing or cannot be encoded.
    """
    if manifest.label not in columns:
        raise DataError("the label column is missing", found=", ".join(map(str, columns))[:300], allowed=manifest.label)
    return encode_features(columns, manifest), encode_labels(columns[manifest.label], manifest)


def read_shard(store: ObjectStore, shard: Shard) -> Any:  # noqa: ANN401 - an Arrow table
    """Rows of one shard as an Arrow table, after its digest was checked.

    Raises:
        DataError: The shard is missing or damaged.
    """
    import pyarrow as pa  # noqa: PLC0415 - the server encodes without Arrow
    import pyarrow.parquet as pq  # noqa: PLC0415 - the server encodes without Arrow

    data = store.get(shard.key)
    found = "nothing" if data is None else f"sha256 {hashlib.sha256(data).hexdigest()}"
    if data is None or found != f"sha256 {shard.sha256}":
        raise DataError(
            "a shard of the dataset is missing or damaged",
            where=shard.key,
            found=found,
            allowed=f"sha256 {shard.sha256}",
            todo="delete the manifest.json beside it and run prepare again",
        )
    table = pq.read_table(pa.BufferReader(data))
    if len(table) != shard.rows:
        raise DataError(
            "a shard has other rows than the manifest says",
            where=shard.key,
            found=f"{len(table)} rows",
            allowed=f"{shard.rows} rows",
            todo="delete the manifest.json beside it and run prepare again",
        )
    return table


def shard_columns(table: Any, manifest: DatasetManifest) -> dict[str, Any]:  # noqa: ANN401 - an Arrow table
    """Columns of a shard in the form that encoding takes."""
    out: dict[str, Any] = {manifest.label: table[manifest.label].to_pylist()}
    for feature in manifest.features:
        column = table[feature.name]
        if feature.kind == "pixels":
            flat = np.concatenate([np.asarray(chunk.flatten()) for chunk in column.chunks])
            out[feature.name] = flat.reshape(len(table), -1)
        elif feature.kind == "numeric":
            out[feature.name] = column.to_numpy()
        else:
            out[feature.name] = column.to_pylist()
    return out


def load_split(store: ObjectStore, manifest: DatasetManifest, split: str) -> tuple[Inputs, Labels]:
    """Read and encode one split, in shard order.

    Args:
        store: The object store.
        manifest: The dataset.
        split: ``train``, ``validation`` or ``test``.

    Returns:
        x as float32 [rows, *manifest.input_shape] and y as int64 [rows].

    Raises:
        DataError: A shard is missing or damaged.
    """
    if split not in SPLITS:
        raise DataError("unknown split", found=split, allowed=", ".join(SPLITS))
    parts = [
        encode_frame(shard_columns(read_shard(store, shard), manifest), manifest)
        for shard in manifest.shards
        if shard.split == split
    ]
    return np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts])
