"""A prepared dataset: where it is, what is in it, how its rows become tensors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

SPLITS = ("train", "validation", "test")


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """One input column of a prepared dataset.

    Attributes:
        name: Column name in the Parquet shards.
        kind: ``numeric`` (one float), ``categorical`` (one-hot over ``categories``, unknown values all zero) or
            ``pixels`` (a list of uint8 in C x H x W order, scaled to 0..1).
        categories: Values of a categorical column, sorted, from the training split.
        mean: Mean of a numeric column over the training split; nulls become the mean, that is 0 after scaling.
        std: Standard deviation over the training split, 1.0 for a constant column.
    """

    name: str
    kind: Literal["numeric", "categorical", "pixels"]
    categories: tuple[str, ...] = ()
    mean: float = 0.0
    std: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """One Parquet file of one split.

    Attributes:
        key: Store key.
        split: ``train``, ``validation`` or ``test``.
        rows: Number of rows.
        size_bytes: Size of the file.
        sha256: Digest of the file.
    """

    key: str
    split: str
    rows: int
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetManifest:
    """``datasets/<fingerprint>/manifest.json``: everything needed to read and encode the rows.

    Attributes:
        fingerprint: Hash of the raw content and of every setting that shapes the prepared rows.
        task: What the label is; classification only, for now.
        label: Name of the label column.
        classes: Label values in index order.
        features: Input columns in order.
        input_shape: Shape of one encoded sample, float32, without the batch dimension.
        shards: All shards of all splits.
        dropped_rows: Rows of the source that were left out, by reason.
    """

    fingerprint: str
    task: Literal["classification"]
    label: str
    classes: tuple[str, ...]
    features: tuple[Feature, ...]
    input_shape: tuple[int, ...]
    shards: tuple[Shard, ...]
    dropped_rows: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetRef:
    """What travels between tasks instead of data.

    Attributes:
        uri: Store URI of the manifest.
        fingerprint: Content fingerprint; equal content gives an equal fingerprint.
        rows: Rows per split.
    """

    uri: str
    fingerprint: str
    rows: dict[str, int]
