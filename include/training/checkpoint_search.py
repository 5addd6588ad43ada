"""Finds the checkpoint to resume from: the newest one that is committed and whose every byte is right."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from obstore.exceptions import BaseError
from pydantic import ValidationError

from include.core.contracts.checkpoint import CheckpointBlob, CheckpointCommit, CheckpointFile
from include.core.json_codec import from_json
from include.training.blob_layout import CheckpointLayout, mistake_in
from include.training.blob_store import BLOBS, BlobStore, fetch
from include.training.checkpoint_ranks import Ranks
from include.training.commit import COMMIT, LAYOUT, parse_name, read_commit, refuse_foreign

_THREADS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCheckpoint:
    """The checkpoint to resume from, its files checked and on the local disk.

    Attributes:
        step: Optimizer steps done.
        uri: Where it is.
        name: Its directory.
        folder: Local folder with its blobs.
        layout: Its tensors.
        blobs: Its blobs.
    """

    step: int
    uri: str
    name: str
    folder: Path
    layout: CheckpointLayout
    blobs: tuple[CheckpointBlob, ...]

    @property
    def names(self) -> frozenset[str]:
        """Names of the tensors that it holds."""
        return frozenset(self.layout.tensors)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSearch:
    """One search over all attempts of a run.

    Attributes:
        blobs: Store and cache.
        ranks: The workers; all of them search together and find the same.
        config: Hash of the configuration.
        fingerprint: Fingerprint of the dataset.
    """

    blobs: BlobStore
    ranks: Ranks
    config: str
    fingerprint: str

    def candidates(self) -> Iterator[tuple[str, FoundCheckpoint | str]]:
        """Checkpoints from the newest on, each as found or as the reason why it is none.

        Raises:
            UserError: One belongs to another configuration or to other data.
        """
        names = list(committed_first(self.blobs)) if self.ranks.rank == 0 else []
        for name in self.ranks.from_first(names):
            yield name, self._check(name)

    def _check(self, name: str) -> FoundCheckpoint | str:
        store, prefix = self.blobs.store, self.blobs.prefix
        try:
            data = store.get(f"{prefix}/{name}/{COMMIT}")
        except BaseError as error:
            if not store.url.startswith("file://"):
                raise
            # No network that could come back: somebody's file, or a circle of links.
            return f"{COMMIT} cannot be opened: {str(error).splitlines()[0]}"
        commit = f"no {COMMIT}" if data is None else read_commit(data, name=name)
        if isinstance(commit, str):
            return commit
        refuse_foreign(commit, uri=store.uri(f"{prefix}/{name}"), config=self.config, fingerprint=self.fingerprint)
        reason = self._fetch_all(commit, name=name)
        if self.ranks.any_true(reason is not None):
            return reason or "another worker found it damaged"
        layout = _read_layout(self.blobs.cache / name / LAYOUT)
        if layout is None:
            return f"{LAYOUT} is not readable"
        mistake = mistake_in(layout, commit.blobs)
        if mistake is not None:
            return f"{LAYOUT} cannot be meant: {mistake}"
        return FoundCheckpoint(
            step=commit.step,
            uri=store.uri(f"{prefix}/{name}"),
            name=name,
            folder=self.blobs.cache / BLOBS,
            layout=layout,
            blobs=commit.blobs,
        )

    def _fetch_all(self, commit: CheckpointCommit, *, name: str) -> str | None:
        """Fetch this worker's share of the files to its machine; returns the first reason to pass it over."""
        files: list[CheckpointFile | CheckpointBlob] = [*commit.files, *commit.blobs]
        mine = files[self.ranks.local_rank :: self.ranks.local_world]
        with ThreadPoolExecutor(_THREADS) as pool:
            return next(
                (reason for reason in pool.map(lambda file: self._fetch(file, name=name), mine) if reason), None
            )

    def _fetch(self, file: CheckpointFile | CheckpointBlob, *, name: str) -> str | None:
        if isinstance(file, CheckpointBlob):
            return self.blobs.fetch(file)
        return fetch(
            self.blobs.store,
            f"{self.blobs.prefix}/{name}/{file.name}",
            self.blobs.cache / name / file.name,
            size_bytes=file.size_bytes,
            sha256=file.sha256,
        )


def committed_first(blobs: BlobStore) -> list[str]:
    """Names of all checkpoint directories of the run, newest first: by step, then by attempt, as numbers."""
    paths = [key.removeprefix(f"{blobs.prefix}/").split("/") for key, _ in blobs.store.list(blobs.prefix)]
    order = {path[0]: order for path in paths if len(path) > 1 and (order := parse_name(path[0]))}
    return sorted(order, key=order.__getitem__, reverse=True)


def _read_layout(path: Path) -> CheckpointLayout | None:
    try:
        return from_json(CheckpointLayout, json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, ValidationError, RecursionError):
        return None
