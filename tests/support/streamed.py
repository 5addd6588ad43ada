"""Small datasets in tar archives, to be streamed."""

from __future__ import annotations

import hashlib
import io
import tarfile

import numpy as np
from PIL import Image

from include.core.contracts.dataset import DatasetManifest, Feature, Shard
from include.core.store import ObjectStore

SIDE = 8


def jpeg(seed: int, side: int = SIDE) -> bytes:
    """A picture of one grey tone that tells which one it is: about 2 x seed."""
    out = io.BytesIO()
    Image.fromarray(np.full((side, side, 3), 2 * seed % 256, np.uint8)).save(out, "JPEG", quality=95)
    return out.getvalue()


def tar(members: list[tuple[str, bytes]]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def put_shard(store: ObjectStore, key: str, data: bytes, *, rows: int, split: str = "train") -> Shard:
    store.put(key, data)
    return Shard(key=key, split=split, rows=rows, size_bytes=len(data), sha256=hashlib.sha256(data).hexdigest())


def tar_set(store: ObjectStore, sizes: tuple[int, ...] = (5, 3, 7, 4, 6, 2)) -> DatasetManifest:
    """Row r of all has class r and tone 2r."""
    shards, row = [], 0
    for number, size in enumerate(sizes):
        members = []
        for of in range(row, row + size):
            members += [(f"{of:04d}.jpg", jpeg(of)), (f"{of:04d}.cls", str(of).encode())]
        shards.append(put_shard(store, f"set/{number:03d}.tar", tar(members), rows=size))
        row += size
    return DatasetManifest(
        fingerprint="tars",
        task="classification",
        label="cls",
        classes=tuple(str(number) for number in range(row)),
        features=(Feature(name="pixels", kind="pixels"),),
        input_shape=(3, SIDE, SIDE),
        shards=tuple(shards),
    )
