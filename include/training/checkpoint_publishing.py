"""Makes the commit of a checkpoint whose blobs are in the store: its layout, then COMMIT.json, only if absent."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from include.core.contracts.checkpoint import CheckpointCommit, CheckpointFile
from include.core.errors import StoreError
from include.core.json_codec import to_json
from include.core.store import ObjectStore
from include.training.blob_layout import CheckpointLayout, StoredChunk, blobs_of
from include.training.commit import COMMIT, LAYOUT, parse_name, seal
from include.training.patience import Patience, patiently


class RivalError(StoreError):
    """Another process runs the same attempt: going on would be work for nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Publisher:
    """Commits of one attempt.

    Attributes:
        store: The object store.
        prefix: ``<run prefix>/checkpoints``.
        cache: Local folder.
        world: Number of workers.
        config: Hash of the configuration.
        fingerprint: Fingerprint of the dataset.
        patience: For how long a store that does not answer is asked again.
        writer: Token by which this process knows its own commits again.
    """

    store: ObjectStore
    prefix: str
    cache: Path
    world: int
    config: str
    fingerprint: str
    patience: Patience
    writer: str = field(default_factory=lambda: uuid.uuid4().hex)

    def publish(
        self, name: str, layout: CheckpointLayout, places: Iterable[StoredChunk], *, metric: float | None
    ) -> int:
        """Make the commit.

        Args:
            name: The checkpoint's directory.
            layout: Its tensors.
            places: Where all their parts lie.
            metric: Validation metric, larger is better.

        Returns:
            Bytes written beside the blobs.

        Raises:
            RivalError: Another process has committed this step of this attempt.
            StoreError: The store does not answer within the patience, or the cache takes no more.
        """
        order = parse_name(name)
        assert order is not None
        data = json.dumps(to_json(layout), separators=(",", ":")).encode()
        _write_bytes(self.cache / name / LAYOUT, data)
        commit = CheckpointCommit(
            step=order[0],
            attempt=order[1],
            world=self.world,
            config_hash=self.config,
            dataset_fingerprint=self.fingerprint,
            files=(CheckpointFile(name=LAYOUT, size_bytes=len(data), sha256=hashlib.sha256(data).hexdigest()),),
            blobs=blobs_of(places),
            metric=metric,
            writer=self.writer,
            seal="",
        )
        document = to_json(seal(commit))
        patiently(lambda: self._put(name, layout=data, commit=document), patience=self.patience)
        return len(data)

    def _put(self, name: str, *, layout: bytes, commit: object) -> None:
        base = f"{self.prefix}/{name}"
        if not self.store.exists(f"{base}/{COMMIT}"):
            self.store.put(f"{base}/{LAYOUT}", layout)
        # An answer may have been lost after the object was made, so the writer's token is looked at.
        if not self.store.create_json(f"{base}/{COMMIT}", commit) and not self._is_there(f"{base}/{COMMIT}", commit):
            raise RivalError(f"checkpoint {name} is already committed; another process runs the same attempt")
        self.store.sync(f"{base}/{LAYOUT}", f"{base}/{COMMIT}")

    def _is_there(self, key: str, commit: object) -> bool:
        try:
            return bool(self.store.get_json(key) == commit)
        except ValueError:  # no JSON at all
            return False


def _write_bytes(path: Path, data: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    except OSError as error:
        raise StoreError(f"cannot write to the checkpoint cache {path.parent}: {error.strerror}") from error
