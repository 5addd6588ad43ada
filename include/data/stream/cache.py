"""Shards on a local disk: fetched once, checked, kept within a budget of bytes, shared by the machine's processes.

A file's name is its digest, so a cache may serve any number of datasets. Who reads a file holds a shared lock on it;
who wants to remove one needs an exclusive lock, so nothing in use is ever removed. A download has its full size from
the start and counts towards the budget at once; one whose writer has died holds no lock and is removed with the next
eviction. The least recently used files go first.

The shards of a store on this machine's own disk are read where they are.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import logging
import mmap
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from include.core.contracts.dataset import Shard
from include.core.errors import DataError, UserError
from include.core.store import ObjectStore, check_key, file_digest

_log = logging.getLogger("plimsoll.stream")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_PART = ".part"
# A file can vanish between its download and its first lock; more often than this it means a broken disk.
_TRIES = 5


def bad_shard(store: ObjectStore, shard: Shard, *, what: str, found: str) -> DataError:
    """The error for a shard that cannot be used: which, where, what was found and what was expected."""
    return DataError(
        f"a shard of the dataset {what}",
        where=store.uri(shard.key),
        found=found,
        allowed=f"{shard.size_bytes} bytes with sha256 {shard.sha256}, {shard.rows} rows",
        todo="restore this object, or delete the manifest.json beside it and run prepare again",
    )


class HeldFile:
    """A checked local file that stays where it is until it is closed.

    Args:
        path: The file.
        descriptor: Open descriptor, with a shared lock where the file is in a cache.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    def map(self) -> mmap.mmap:
        """The content, mapped read-only; it stays valid after `close`."""
        return mmap.mmap(self._descriptor, 0, access=mmap.ACCESS_READ)

    def stamp(self) -> tuple[int, int, int]:
        """What changes when the file is replaced or written to."""
        found = os.fstat(self._descriptor)
        return found.st_ino, found.st_size, found.st_mtime_ns

    def mark_used(self) -> None:
        """Make this the most recently used file; the time of its last change stays."""
        os.utime(self._descriptor, ns=(time.time_ns(), os.fstat(self._descriptor).st_mtime_ns))

    def close(self) -> None:
        """Allow the file to be removed."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _hold(path: Path) -> HeldFile | None:
    """Open and lock a file, unless it is not there or was removed in between."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    if os.fstat(descriptor).st_nlink == 0:
        os.close(descriptor)
        return None
    return HeldFile(path, descriptor)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _remove_unless_held(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink(missing_ok=True)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


class ShardCache:
    """A folder of shards.

    Args:
        folder: The folder; made when needed. Any number of processes of one machine may share it.
        budget_bytes: What the files may take. Only shards that are all in use at once can exceed it.
    """

    def __init__(self, folder: Path, *, budget_bytes: int) -> None:
        self.folder = folder
        self.budget_bytes = budget_bytes
        self._checked: dict[Path, tuple[int, int, int]] = {}

    def open(self, store: ObjectStore, shard: Shard) -> HeldFile:
        """A local file with the shard's content, whose digest was checked by this process.

        Raises:
            DataError: The shard is missing in the store or damaged there.
        """
        if store.url.startswith("file://"):
            return self._in_place(store, shard)
        path = self._path_of(store, shard)
        for _ in range(_TRIES):
            held = _hold(path)
            if held is None:
                self.fetch(store, shard)
            elif self._is_intact(held, shard):
                held.mark_used()
                return held
            else:
                _log.warning("cached shard %s is damaged; fetching it again", path)
                held.close()
                path.unlink(missing_ok=True)
        raise bad_shard(store, shard, what="does not stay in the cache", found=str(path))

    def fetch(self, store: ObjectStore, shard: Shard) -> None:
        """Have the shard in the cache; waits when another process is fetching it.

        Raises:
            DataError: The shard is missing in the store or damaged there.
        """
        if store.url.startswith("file://"):
            return
        path = self._path_of(store, shard)
        if path.exists():
            return
        locks = self.folder / "locks"
        locks.mkdir(parents=True, exist_ok=True)
        with _locked(locks / shard.sha256):
            if not path.exists():
                self._download(store, shard, path)

    def _path_of(self, store: ObjectStore, shard: Shard) -> Path:
        if not _SHA256.fullmatch(shard.sha256):
            raise bad_shard(store, shard, what="has no digest", found=repr(shard.sha256)[:80])
        return self.folder / shard.sha256

    def _in_place(self, store: ObjectStore, shard: Shard) -> HeldFile:
        path = Path(store.url.removeprefix("file://")) / check_key(shard.key)
        held = _hold(path)
        if held is None:
            raise bad_shard(store, shard, what="is missing", found="nothing")
        if not self._is_intact(held, shard):
            held.close()
            raise bad_shard(store, shard, what="is damaged", found=_seen(path))
        return held

    def _is_intact(self, held: HeldFile, shard: Shard) -> bool:
        stamp = held.stamp()
        if self._checked.get(held.path) == stamp:
            return True
        if stamp[1] != shard.size_bytes or file_digest(held.path) != shard.sha256:
            return False
        self._checked[held.path] = stamp
        return True

    def _download(self, store: ObjectStore, shard: Shard, path: Path) -> None:
        part = path.with_name(f"{path.name}{_PART}")
        with part.open("wb") as out:
            fcntl.flock(out, fcntl.LOCK_EX)
            with _locked(self.folder / "eviction.lock"):
                self._make_room(shard.size_bytes)
                out.truncate(shard.size_bytes)
            try:
                self._write(store, shard, out)
                part.replace(path)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                raise UserError(
                    "the disk of the shard cache is full",
                    where=str(self.folder),
                    found=f"no room for {shard.size_bytes} bytes, with a budget of {self.budget_bytes}",
                    todo="lower PLIMSOLL_SHARD_CACHE_BYTES, or let PLIMSOLL_WORK_ROOT point to a larger disk",
                ) from error
            finally:
                part.unlink(missing_ok=True)

    def _write(self, store: ObjectStore, shard: Shard, out: BinaryIO) -> None:
        seen, size = hashlib.sha256(), 0
        try:
            for chunk in store.chunks(shard.key):
                size += len(chunk)
                if size > shard.size_bytes:
                    break
                seen.update(chunk)
                out.write(chunk)
        except FileNotFoundError as error:
            raise bad_shard(store, shard, what="is missing", found="nothing") from error
        if size != shard.size_bytes or seen.hexdigest() != shard.sha256:
            more = "more than " if size > shard.size_bytes else ""
            found = f"{more}{size} bytes with sha256 {seen.hexdigest()}"
            raise bad_shard(store, shard, what="is damaged", found=found)
        out.flush()

    def _make_room(self, needed: int) -> None:
        """Remove files, the least recently used first, until the budget holds what is needed as well."""
        files = []
        for path in self.folder.iterdir():
            is_part = path.suffix == _PART
            if (is_part and _remove_unless_held(path)) or not (is_part or _SHA256.fullmatch(path.name)):
                continue
            with suppress(FileNotFoundError):  # a finished download has another name by now
                found = path.stat()
                files.append((found.st_atime_ns, found.st_size, path))
        over = sum(size for _, size, _ in files) + needed - self.budget_bytes
        for _, size, path in sorted(files):
            if over <= 0:
                return
            if path.suffix != _PART and _remove_unless_held(path):
                over -= size
        if over > 0:
            _log.warning("the shard cache exceeds its budget by %d bytes: all its shards are in use", over)


def _seen(path: Path) -> str:
    return f"{path.stat().st_size} bytes with sha256 {file_digest(path)}"
