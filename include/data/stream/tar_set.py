"""Describe a WebDataset set that lies in a store, so that it can be streamed where it is."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from include.core.contracts.dataset import DatasetManifest, Feature, Shard
from include.core.errors import DataError
from include.core.ids import content_digest
from include.core.store import ObjectStore
from include.data.images import PIXELS
from include.data.stream.rows import TAR
from include.data.stream.samples import samples_of

LABEL = "cls"


def _in_order(classes: Iterable[str]) -> tuple[str, ...]:
    """By number when all are whole numbers, else by text."""
    found = set(classes)
    if all(name.removeprefix("-").isdecimal() for name in found):
        return tuple(sorted(found, key=lambda name: (int(name), name)))
    return tuple(sorted(found))


def describe_tar_set(
    store: ObjectStore, prefix: str, *, input_shape: tuple[int, int, int], split: str = "train"
) -> DatasetManifest:
    """Read every archive under a prefix once, and write down rows, sizes, digests and classes.

    Args:
        store: The object store.
        prefix: Where the archives are; other objects are passed over.
        input_shape: Channels (1 or 3), height and width that pictures are decoded to.
        split: Which split the set is.

    Returns:
        The manifest, for `StreamPlan`; it is not written to the store.

    Raises:
        DataError: There are no archives, or one of them is damaged or not a WebDataset archive.
    """
    shards, classes = [], set()
    for key in sorted(key for key, _ in store.list(prefix) if key.endswith(TAR)):
        data = store.get(key) or b""
        labels = [sample.label for sample in samples_of(data, where=store.uri(key))]
        classes.update(labels)
        digest = hashlib.sha256(data).hexdigest()
        shards.append(Shard(key=key, split=split, rows=len(labels), size_bytes=len(data), sha256=digest))
    if not any(shard.rows for shard in shards):
        raise DataError("there are no samples", where=store.uri(prefix), allowed=f"objects ending in {TAR}")
    return DatasetManifest(
        fingerprint=content_digest({"shards": [shard.sha256 for shard in shards], "shape": input_shape}),
        task="classification",
        label=LABEL,
        classes=_in_order(classes),
        features=(Feature(name=PIXELS, kind="pixels"),),
        input_shape=input_shape,
        shards=tuple(shards),
    )
