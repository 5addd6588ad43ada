"""Make a prepared dataset: fingerprint, split, shards, and the manifest last, which is the commit.

The fingerprint is known before a row is parsed, so a dataset that exists is found and not made again. All checks come
before the first write: a source that cannot be used leaves nothing behind.
"""

from __future__ import annotations

import hashlib
import io
import logging
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from include.config.data_section import DataSection
from include.core.contracts.dataset import SPLITS, DatasetManifest, DatasetRef, Feature, Shard
from include.core.errors import DataError
from include.core.ids import content_digest
from include.core.json_codec import to_json
from include.core.store import ObjectStore
from include.data.columns import CleanTable, clean
from include.data.manifest import manifest_key, read_manifest
from include.data.sources import OpenedSource, open_source
from include.data.split import assign_splits, row_hashes

# Grows whenever the same content would be prepared in another way: old datasets are then not found any more.
FORMAT_VERSION = 2
MOST_ROWS_PER_SHARD = 50_000
_SHARD_BYTES = 64 * 2**20

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A prepared dataset.

    Attributes:
        ref: What other tasks get.
        manifest: Its manifest.
        found: True when it was already there.
    """

    ref: DatasetRef
    manifest: DatasetManifest
    found: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitTable:
    """Checked rows of all splits, nothing written yet.

    Attributes:
        manifest: Complete but for its shards.
        splits: Split -> rows (``row_id``, features, label), in source order.
    """

    manifest: DatasetManifest
    splits: dict[str, pa.Table]


def fingerprint_of(source: OpenedSource, data: DataSection) -> str:
    """Hash of the raw content and of every setting that shapes the prepared rows."""
    return content_digest(
        {
            "format": FORMAT_VERSION,
            "content": source.digest,
            "label": data.label,
            "drop": sorted(data.drop),
            "image_shape": data.image_shape,
            "split": data.split.model_dump(),
        }
    )


def _numeric(name: str, column: pa.ChunkedArray) -> Feature:
    finite = column.filter(pc.is_finite(column)) if len(column) else column
    values = finite.drop_null().to_numpy()
    if not len(values):
        return Feature(name=name, kind="numeric")
    std = float(np.std(values))
    # A column that varies by rounding noise only counts as constant.
    constant = not math.isfinite(std) or std <= abs(float(np.mean(values))) * 1e-12
    return Feature(name=name, kind="numeric", mean=float(np.mean(values)), std=1.0 if constant else std)


def _feature(name: str, kind: str, train: pa.Table) -> Feature:
    """Encoding of one column, learned from the training split alone."""
    if kind == "numeric":
        return _numeric(name, train[name])
    if kind == "pixels":
        return Feature(name=name, kind="pixels")
    categories = pc.unique(train[name]).drop_null().to_pylist()
    return Feature(name=name, kind="categorical", categories=tuple(sorted(categories)))


def _input_shape(table: CleanTable, features: tuple[Feature, ...], data: DataSection) -> tuple[int, ...]:
    wanted = data.image_shape
    if table.pixel_shape is not None:
        if len(features) == 1 and wanted in {None, table.pixel_shape}:
            return table.pixel_shape
        raise DataError(
            "images have another shape",
            where="data.image_shape",
            found=str(wanted),
            allowed=str(list(table.pixel_shape)),
        )
    if wanted is None:
        return (sum(len(f.categories) if f.kind == "categorical" else 1 for f in features),)
    if any(f.kind != "numeric" for f in features) or math.prod(wanted) != len(features):
        raise DataError(
            "the columns do not fill the image",
            where="data.image_shape",
            found=f"{len(features)} columns, {sum(f.kind != 'numeric' for f in features)} of them not numeric",
            allowed=f"{math.prod(wanted)} numeric columns for {list(wanted)}",
        )
    return tuple(wanted)


def _check_splits(splits: dict[str, pa.Table], table: CleanTable) -> None:
    empty = [name for name in SPLITS if splits[name].num_rows == 0]
    if empty:
        raise DataError(
            f"the {empty[0]} split is empty",
            where="data.split",
            found=f"{table.table.num_rows} rows: " + ", ".join(f"{n} {t.num_rows}" for n, t in splits.items()),
            allowed="at least one row in each split",
            todo="add rows, or raise the share of this split; many equal rows share a split",
        )
    present = set(pc.unique(splits["train"][table.label]).to_pylist())
    absent = [name for name in table.classes if name not in present]
    if absent:
        raise DataError(
            "classes without a row in the training split",
            where="data.label",
            found=", ".join(map(repr, absent[:10])),
            allowed="several different rows of every class",
            todo="add rows of these classes, or merge or remove them in the source",
        )


def split_rows(source: OpenedSource, data: DataSection) -> SplitTable:
    """Parse, check, split and describe the rows of a source without writing anything.

    Raises:
        DataError: The rows cannot be used; the message says why and what to do.
    """
    table = clean(source.read(), data)
    names = assign_splits(row_hashes(table.table, list(table.kinds)), data.split)
    splits = {name: table.table.filter(pa.array(names == name)) for name in SPLITS}
    _check_splits(splits, table)
    features = tuple(_feature(name, kind, splits["train"]) for name, kind in table.kinds.items())
    return SplitTable(
        manifest=DatasetManifest(
            fingerprint=fingerprint_of(source, data),
            task="classification",
            label=table.label,
            classes=table.classes,
            features=features,
            input_shape=_input_shape(table, features, data),
            shards=(),
            dropped_rows=table.dropped,
        ),
        splits=splits,
    )


def _pieces(table: pa.Table) -> Iterator[pa.Table]:
    row_bytes = max(1, table.nbytes // max(1, table.num_rows))
    rows = max(1, min(MOST_ROWS_PER_SHARD, _SHARD_BYTES // row_bytes))
    for start in range(0, table.num_rows, rows):
        yield table.slice(start, rows)


def write_shards(store: ObjectStore, rows: SplitTable) -> DatasetManifest:
    """Write all shards and return the complete manifest, not committed yet.

    The digest is part of a shard's key: two writers of one dataset never overwrite each other's bytes.
    """
    shards = []
    for split, table in rows.splits.items():
        for number, piece in enumerate(_pieces(table)):
            buffer = io.BytesIO()
            pq.write_table(piece, buffer, compression="zstd")
            data = buffer.getvalue()
            sha256 = hashlib.sha256(data).hexdigest()
            key = f"datasets/{rows.manifest.fingerprint}/{split}-{number:05d}-{sha256[:12]}.parquet"
            store.put(key, data)
            shards.append(Shard(key=key, split=split, rows=piece.num_rows, size_bytes=len(data), sha256=sha256))
    return replace(rows.manifest, shards=tuple(shards))


def _prepared(store: ObjectStore, manifest: DatasetManifest, *, found: bool) -> Prepared:
    rows = {split: sum(s.rows for s in manifest.shards if s.split == split) for split in SPLITS}
    uri = store.uri(manifest_key(manifest.fingerprint))
    return Prepared(
        ref=DatasetRef(uri=uri, fingerprint=manifest.fingerprint, rows=rows), manifest=manifest, found=found
    )


def find_dataset(store: ObjectStore, fingerprint: str) -> Prepared | None:
    """A committed dataset with all its shards, or None.

    A manifest whose shards are gone (somebody cleaned up by hand) is withdrawn, so that the dataset is made again.
    """
    key = manifest_key(fingerprint)
    if not store.exists(key):
        return None
    manifest = read_manifest(store, store.uri(key))
    gone = [shard.key for shard in manifest.shards if store.size(shard.key) != shard.size_bytes]
    if gone:
        _log.warning("dataset %s lost %d shards, first %s: preparing it again", fingerprint, len(gone), gone[0])
        store.delete(key)
        return None
    return _prepared(store, manifest, found=True)


def prepare_dataset(*, store: ObjectStore, data: DataSection, roots: tuple[Path, ...]) -> Prepared:
    """Prepare a dataset, or find it.

    Args:
        store: The object store.
        data: The ``data`` section of the workload.
        roots: Folders that local data may lie in.

    Raises:
        DataError: The source cannot be used; nothing was written.
    """
    source = open_source(data, roots=roots)
    fingerprint = fingerprint_of(source, data)
    existing = find_dataset(store, fingerprint)
    if existing is not None:
        return existing
    manifest = write_shards(store, split_rows(source, data))
    if not store.create_json(manifest_key(fingerprint), to_json(manifest)):
        # Another writer committed first; its shards are the ones that count.
        return _prepared(store, read_manifest(store, store.uri(manifest_key(fingerprint))), found=True)
    return _prepared(store, manifest, found=False)
