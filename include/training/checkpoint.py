"""Saving and finding checkpoints: a new directory per step and attempt, and a commit that makes it one.

Files are written by torch.distributed.checkpoint as safetensors to the local disk, copied to the object store, and
committed by COMMIT.json, created last and only if absent. What has no commit does not exist for anyone.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch.distributed import checkpoint as dcp
from torch.distributed.checkpoint.api import CheckpointException

from include.core.contracts.checkpoint import CheckpointCommit, CheckpointFile
from include.core.errors import StoreError
from include.core.json_codec import to_json
from include.core.store import ObjectStore, file_digest
from include.training.commit import COMMIT, checkpoint_name, parse_name, read_commit, refuse_foreign, seal

_log = logging.getLogger("plimsoll.checkpoint")
_KEPT_LOCALLY = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCheckpoint:
    """The checkpoint to resume from: its step, its URI and the local folder with its checked files."""

    step: int
    uri: str
    folder: Path


@dataclass(slots=True, kw_only=True)
class Checkpointer:
    """Checkpoints of one attempt of one run.

    Attributes:
        store: The object store.
        prefix: ``<run prefix>/checkpoints``.
        cache: Local folder for files on their way.
        attempt: Number of this attempt.
        config: Hash of the configuration.
        fingerprint: Fingerprint of the dataset.
        skipped: Checkpoints passed over by `newest`, with reasons.
        save_seconds: Seconds of each save, from state to commit.
        last_uri: The last committed checkpoint.
        last_step: Its step.
    """

    store: ObjectStore
    prefix: str
    cache: Path
    attempt: int
    config: str
    fingerprint: str
    skipped: list[tuple[str, str]] = field(default_factory=list)
    save_seconds: list[float] = field(default_factory=list)
    last_uri: str = ""
    last_step: int = 0

    def save(self, tensors: dict[str, torch.Tensor], *, step: int) -> str:
        """Write, copy and commit a checkpoint.

        Returns:
            Its URI.

        Raises:
            StoreError: This step of this attempt is already committed, or the files cannot be written.
        """
        began = time.monotonic()
        name = checkpoint_name(step=step, attempt=self.attempt)
        folder = self.cache / name
        _write(tensors, folder)
        files = tuple(
            CheckpointFile(
                name=path.name,
                size_bytes=path.stat().st_size,
                sha256=self.store.upload(path, f"{self.prefix}/{name}/{path.name}"),
            )
            for path in sorted(folder.iterdir())
        )
        commit = CheckpointCommit(
            step=step,
            attempt=self.attempt,
            world=_world(),
            config_hash=self.config,
            dataset_fingerprint=self.fingerprint,
            files=files,
            seal="",
        )
        if not self.store.create_json(f"{self.prefix}/{name}/{COMMIT}", to_json(seal(commit))):
            raise StoreError(f"checkpoint {name} is already committed; another process runs the same attempt")
        self.last_uri, self.last_step = self.store.uri(f"{self.prefix}/{name}"), step
        self.save_seconds.append(time.monotonic() - began)
        self._forget_old_folders()
        _log.info("checkpoint step=%d committed in %.3f s: %s", step, self.save_seconds[-1], self.last_uri)
        return self.last_uri

    def newest(self) -> FoundCheckpoint | None:
        """The newest committed and valid checkpoint of any attempt, with its files on the local disk.

        Raises:
            UserError: It belongs to another configuration or to other data.
        """
        for name in self._names():
            found = self._check(name)
            if isinstance(found, FoundCheckpoint):
                self.last_uri, self.last_step = found.uri, found.step
                return found
            self.skipped.append((name, found))
            _log.warning("checkpoint %s skipped: %s", name, found)
        return None

    def _names(self) -> Iterator[str]:
        keys = {key.removeprefix(f"{self.prefix}/").split("/")[0] for key, _ in self.store.list(self.prefix)}
        order = {name: order for name in keys if (order := parse_name(name))}
        yield from sorted(order, key=order.__getitem__, reverse=True)

    def _check(self, name: str) -> FoundCheckpoint | str:
        data = self.store.get(f"{self.prefix}/{name}/{COMMIT}")
        if data is None:
            return f"no {COMMIT}"
        commit = read_commit(data, name=name)
        if isinstance(commit, str):
            return commit
        uri = self.store.uri(f"{self.prefix}/{name}")
        refuse_foreign(commit, uri=uri, config=self.config, fingerprint=self.fingerprint)
        folder = self.cache / name
        for file in commit.files:
            reason = self._fetch(file, key=f"{self.prefix}/{name}/{file.name}", path=folder / file.name)
            if reason:
                return reason
        return FoundCheckpoint(step=commit.step, uri=uri, folder=folder)

    def _fetch(self, file: CheckpointFile, *, key: str, path: Path) -> str | None:
        if path.exists() and file_digest(path) == file.sha256:
            return None
        try:
            self.store.download(key, path)
        except FileNotFoundError:
            return f"{file.name} is missing"
        if path.stat().st_size != file.size_bytes:
            return f"{file.name} has {path.stat().st_size} bytes instead of {file.size_bytes}"
        return None if file_digest(path) == file.sha256 else f"{file.name} differs from its digest"

    def _forget_old_folders(self) -> None:
        folders = [path for path in self.cache.iterdir() if parse_name(path.name)]
        for path in sorted(folders, key=lambda p: parse_name(p.name) or (0, 0))[:-_KEPT_LOCALLY]:
            shutil.rmtree(path, ignore_errors=True)


def _world() -> int:
    return torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1


def _write(tensors: dict[str, torch.Tensor], folder: Path) -> None:
    # A folder left by a killed process of the same attempt holds no commit; never write into it.
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        dcp.save(tensors, storage_writer=dcp.HuggingFaceStorageWriter(str(folder)))
    except CheckpointException as error:  # derives from BaseException: `except Exception` misses it
        raise StoreError(f"cannot write checkpoint {folder.name}: {error}") from error


def read_tensors(folder: Path) -> dict[str, torch.Tensor]:
    """All tensors of a checkpoint on the local disk.

    Raises:
        StoreError: The files cannot be read although their digests are right.
    """
    reader = dcp.HuggingFaceStorageReader(str(folder))
    described = reader.read_metadata().state_dict_metadata
    tensors = {name: torch.empty(tensor.size, dtype=tensor.properties.dtype) for name, tensor in described.items()}
    try:
        dcp.load(tensors, storage_reader=reader)
    except CheckpointException as error:
        raise StoreError(f"cannot read checkpoint {folder.name}: {error}") from error
    return tensors
