"""The blobs of a run in two tiers: the local disk as a cache, the object store as the truth.

A blob counts as stored only when a commit names it that this process wrote or has checked. Anything else under its name
may be half of a blob, or may be about to be collected by another process, and is written again: same name, same bytes.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from include.core.contracts.checkpoint import CheckpointBlob
from include.core.errors import StoreError
from include.core.store import ObjectStore, file_digest
from include.training.blob_content import BlobContent
from include.training.patience import Patience, patiently

BLOBS = "blobs"


@dataclass(slots=True, kw_only=True)
class BlobStore:
    """Blobs of one run as one worker sees them.

    Attributes:
        store: The object store, as it is read.
        writes: The same one, as a save writes to it: a request that fails there is soon for `patiently` to judge.
        prefix: ``<run prefix>/checkpoints``.
        cache: Local folder.
        patience: For how long a store that does not answer is asked again.
        trusted: Digests of blobs that a commit names that this process wrote or has checked.
        pending: Local files of blobs that were written since the last commit.
    """

    store: ObjectStore
    writes: ObjectStore
    prefix: str
    cache: Path
    patience: Patience
    trusted: set[str] = field(default_factory=set)
    pending: set[Path] = field(default_factory=set)

    def path(self, name: str) -> Path:
        """Local file of a blob."""
        return self.cache / BLOBS / name

    def key(self, name: str) -> str:
        """Key of a blob."""
        return f"{self.prefix}/{BLOBS}/{name}"

    def write(self, content: BlobContent) -> int:
        """Write a blob to the cache and to the store, unless the run has it.

        Returns:
            Bytes written; 0 for a blob that the run has.

        Raises:
            StoreError: The disk is full, or the store does not answer within the patience.
        """
        blob = content.blob
        if blob.sha256 in self.trusted:
            return 0
        path = self.path(blob.name)
        self.pending.add(path)
        try:
            _write_file(path, content)
        except OSError as error:
            raise StoreError(f"cannot write to the checkpoint cache {path.parent}: {error.strerror}") from error
        patiently(lambda: self.writes.place(path, self.key(blob.name)), patience=self.patience)
        return blob.size_bytes

    def sync(self, blobs: Collection[CheckpointBlob]) -> None:
        """Make sure that blobs survive a loss of power, all at once.

        Raises:
            StoreError: The disk refuses.
        """
        try:
            self.writes.sync_names(*(self.key(blob.name) for blob in blobs))
        except OSError as error:
            raise StoreError(f"cannot force blobs to the disk: {error.strerror}") from error

    def committed(self, digests: set[str]) -> None:
        """A commit names these blobs of this worker."""
        self.trusted = digests
        self.pending.clear()

    def give_up(self) -> None:
        """Remove from the local disk what a failed save has written: it may be what has filled it."""
        for path in self.pending:
            path.unlink(missing_ok=True)
        self.pending.clear()

    def fetch(self, blob: CheckpointBlob) -> str | None:
        """Bring a blob to the local disk and check it.

        Returns:
            Why it cannot be used, or None.
        """
        return fetch(
            self.store, self.key(blob.name), self.path(blob.name), size_bytes=blob.size_bytes, sha256=blob.sha256
        )


def fetch(store: ObjectStore, key: str, path: Path, *, size_bytes: int, sha256: str) -> str | None:
    """Bring an object to the local disk, unless a good copy is there, and check it.

    Returns:
        Why it cannot be used, or None.
    """
    if path.exists() and file_digest(path) == sha256:
        return None
    try:
        store.download(key, path)
    except FileNotFoundError:
        return f"{path.name} is missing"
    if path.stat().st_size != size_bytes:
        return f"{path.name} has {path.stat().st_size} bytes instead of {size_bytes}"
    return None if file_digest(path) == sha256 else f"{path.name} differs from its digest"


def _write_file(path: Path, content: BlobContent) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Workers of one machine share the folder and may hold equal shards.
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb", buffering=0) as out:
            for view in content.parts:
                _write_all(out.fileno(), view)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _write_all(descriptor: int, view: memoryview) -> None:
    while view:
        view = view[os.write(descriptor, view) :]
