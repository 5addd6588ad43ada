"""Keeps the local disk from filling up: only the last checkpoints stay on it."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from include.training.blob_store import BLOBS

_KEPT = 2


@dataclass(slots=True, kw_only=True)
class LocalCopies:
    """The checkpoints on the local disk, as one worker knows them.

    Attributes:
        cache: The folder.
    """

    cache: Path
    _known: list[tuple[str, frozenset[str]]] = field(default_factory=list)

    def begin_with(self, name: str, blobs: Iterable[str], *, alone: bool) -> None:
        """Start from a checkpoint that was fetched.

        Args:
            name: Its directory.
            blobs: File names of its blobs.
            alone: Remove all else: what earlier attempts left is of no use beside it.
        """
        self._known = [(name, frozenset(blobs))]
        if not alone:
            return
        for path in list((self.cache / BLOBS).glob("*.safetensors")):
            if path.name not in self._known[0][1]:
                path.unlink(missing_ok=True)
        for path in list(self.cache.glob("step-*")):
            if path.name != name:
                shutil.rmtree(path, ignore_errors=True)

    def add(self, name: str, blobs: Iterable[str]) -> None:
        """Note a checkpoint that was written, and remove those that are too old."""
        self._known.append((name, frozenset(blobs)))
        old, self._known = self._known[:-_KEPT], self._known[-_KEPT:]
        needed = {blob for _, names in self._known for blob in names}
        for past, names in old:
            for blob in names - needed:
                (self.cache / BLOBS / blob).unlink(missing_ok=True)
            shutil.rmtree(self.cache / past, ignore_errors=True)
