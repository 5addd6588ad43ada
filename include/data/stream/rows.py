"""The rows of one shard, whatever format it has, put into batches."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from include.core.contracts.dataset import DatasetManifest, Shard
from include.core.errors import DataError
from include.core.store import ObjectStore
from include.data.encoding import encode_features, encode_labels, shard_columns
from include.data.stream.cache import HeldFile, bad_shard
from include.data.stream.pictures import decode
from include.data.stream.samples import samples_of

Ints = npt.NDArray[np.int64]
TAR = ".tar"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFormat:
    """How a row stands in a batch.

    Attributes:
        shape: Shape of one row.
        dtype: ``float32``: ready for the model. ``uint8``: pixels, to be divided by 255.
        channels_last: Whether pixels stand as height, width, channels; else as channels, height, width.
    """

    shape: tuple[int, ...]
    dtype: Literal["float32", "uint8"]
    channels_last: bool = False

    @property
    def row_bytes(self) -> int:
        """Bytes of one row with its class index."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize + np.dtype(np.int64).itemsize


def row_format(manifest: DatasetManifest, shards: tuple[Shard, ...]) -> RowFormat:
    """The format of a dataset's rows; all its shards have the same."""
    if shards[0].key.endswith(TAR):
        channels, height, width = manifest.input_shape
        return RowFormat(shape=(height, width, channels), dtype="uint8", channels_last=True)
    pixels = [feature.kind for feature in manifest.features] == ["pixels"]
    return RowFormat(shape=manifest.input_shape, dtype="uint8" if pixels else "float32")


class ShardRows(Protocol):
    """The rows of one open shard."""

    rows: int

    def put(self, rows: Ints, *, inputs: npt.NDArray[Any], targets: Ints, places: Ints) -> None:
        """Put rows of the shard into a batch at the given places."""
        ...


class ParquetRows:
    """Rows as prepare writes them; pixels stay bytes, everything else is encoded once.

    Args:
        path: The Parquet file.
        manifest: How its columns are encoded.
    """

    def __init__(self, path: Path, manifest: DatasetManifest) -> None:
        with pa.memory_map(str(path)) as source:
            names = [*(feature.name for feature in manifest.features), manifest.label]
            columns = shard_columns(pq.read_table(source, columns=names), manifest)
        self._targets = encode_labels(columns[manifest.label], manifest)
        self.rows = len(self._targets)
        if [feature.kind for feature in manifest.features] == ["pixels"]:
            self._inputs = columns[manifest.features[0].name].reshape(self.rows, *manifest.input_shape)
        else:
            self._inputs = encode_features(columns, manifest)

    def put(self, rows: Ints, *, inputs: npt.NDArray[Any], targets: Ints, places: Ints) -> None:
        """See `ShardRows`."""
        inputs[places] = self._inputs[rows]
        targets[places] = self._targets[rows]


class TarRows:
    """Pictures of a WebDataset archive, decoded when they are asked for.

    Args:
        held: The archive.
        manifest: Its classes.
        where: What to call it in errors.
    """

    def __init__(self, held: HeldFile, manifest: DatasetManifest, *, where: str) -> None:
        self._data = held.map()
        self._where = where
        samples = list(samples_of(self._data, where=where))
        self._images = [sample.image for sample in samples]
        self._targets = encode_labels([sample.label for sample in samples], manifest)
        self.rows = len(samples)

    def put(self, rows: Ints, *, inputs: npt.NDArray[Any], targets: Ints, places: Ints) -> None:
        """See `ShardRows`."""
        targets[places] = self._targets[rows]
        out, size = inputs.data.cast("B"), inputs[0].nbytes
        height, width, channels = inputs.shape[1:]
        for row, place in zip(rows.tolist(), places.tolist(), strict=True):
            name, start, length = self._images[row]
            try:
                picture = decode(self._data[start : start + length], height=height, width=width, channels=channels)
            except Exception as error:
                # Decoders raise whatever they stumble on; the picture is what is wrong.
                where = f"{self._where}, {name}"
                raise DataError("a picture cannot be decoded", where=where, found=str(error)) from error
            out[place * size : (place + 1) * size] = picture


def open_rows(store: ObjectStore, shard: Shard, held: HeldFile, manifest: DatasetManifest) -> ShardRows:
    """Open a fetched shard.

    Raises:
        DataError: It has another content than the manifest says.
    """
    try:
        if shard.key.endswith(TAR):
            rows: ShardRows = TarRows(held, manifest, where=store.uri(shard.key))
        else:
            rows = ParquetRows(held.path, manifest)
    except (pa.ArrowException, KeyError, OSError) as error:
        raise bad_shard(store, shard, what="cannot be read", found=str(error).splitlines()[0][:300]) from error
    if rows.rows != shard.rows:
        raise bad_shard(store, shard, what="has another number of rows", found=f"{rows.rows} rows")
    return rows
