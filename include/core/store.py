"""The object store port over obstore: files, S3 and compatibles, GCS, Azure behind one small interface.

The only conditional write is create-if-absent: it makes commits and claims. There is no append, no update by tag and
no pointer to "the latest". Do not call a store before a fork: obstore hangs for ever in the child, so nothing in the
scheduler, the dag-processor or the triggerer's parent may use it, and data-loader workers are spawned.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import obstore
from obstore.exceptions import AlreadyExistsError
from obstore.store import LocalStore, from_url

from include.core.errors import UserError
from include.core.store_url import has_credentials, without_credentials

_LONGEST_CONNECT = timedelta(seconds=5)


def check_key(key: str) -> str:
    """Refuse keys that could leave the store.

    Raises:
        UserError: The key is absolute, empty, or has ``.``, ``..`` or empty segments.
    """
    if not {"", ".", ".."}.isdisjoint(key.split("/")) or "\\" in key or "\0" in key:
        raise UserError(
            "key is outside the store",
            found=repr(key),
            allowed="relative keys without '.', '..', '\\' or empty segments",
        )
    return key


class ObjectStore:
    """Small objects by key under one root URL.

    Args:
        url: ``file:///abs/path``, ``s3://bucket/prefix``, ``gs://...`` or ``az://...``. Credentials and endpoints come
            from the process environment (``AWS_*``), never from the URL.
        patience_s: About how long one call may take before it fails, for callers with small objects that must not be
            held up; None leaves it to obstore, which tries for minutes. Files do not wait.
        retry_s: About how long a request that fails is tried again, for callers with large objects that try again
            themselves; a request that gets through may take as long as ever.

    Raises:
        UserError: The URL has credentials in it; it is not repeated.
    """

    def __init__(self, url: str, *, patience_s: float | None = None, retry_s: float | None = None) -> None:
        if has_credentials(url):
            raise UserError(
                "the URL of a store has credentials in it",
                found=repr(without_credentials(url)),
                todo="give them in the environment, or to the machine's role",
            )
        self.url = url.rstrip("/")
        self._patience_s = patience_s
        self._retry_s = retry_s

    @cached_property
    def _backend(self) -> Any:  # noqa: ANN401 - obstore's store union
        # Built on first use: a store object made before a fork must not have been used before it.
        if self._is_folder:
            return LocalStore(self.url.removeprefix("file://"), mkdir=True)
        if self._retry_s is not None:
            limit = timedelta(seconds=self._retry_s)
            return from_url(
                self.url,
                client_options={"allow_http": True, "connect_timeout": min(limit, _LONGEST_CONNECT)},
                retry_config={"retry_timeout": limit},
            )
        if self._patience_s is None:
            return from_url(self.url, client_options={"allow_http": True})
        limit = timedelta(seconds=self._patience_s)
        return from_url(
            self.url,
            client_options={"allow_http": True, "timeout": limit, "connect_timeout": limit},
            retry_config={"max_retries": 3, "retry_timeout": limit},
        )

    def uri(self, key: str) -> str:
        """Absolute URI of a key."""
        return f"{self.url}/{check_key(key)}"

    def key_of(self, uri: str) -> str:
        """Key of a URI of this store.

        Raises:
            UserError: The URI lies outside the store.
        """
        if not uri.startswith(f"{self.url}/"):
            raise UserError("URI is outside the store", found=uri, allowed=f"URIs under {self.url}/")
        return check_key(uri.removeprefix(f"{self.url}/"))

    def put(self, key: str, data: bytes) -> None:
        """Write or replace an object."""
        obstore.put(self._backend, check_key(key), data)

    def create(self, key: str, data: bytes) -> bool:
        """Write an object that must not exist yet.

        Returns:
            False when somebody else's object is already there; it is left as it is.
        """
        try:
            obstore.put(self._backend, check_key(key), data, mode="create")
        except AlreadyExistsError:
            return False
        return True

    def get(self, key: str) -> bytes | None:
        """Content of an object, or None where there is none."""
        try:
            return bytes(obstore.get(self._backend, check_key(key)).bytes())
        except (FileNotFoundError, IsADirectoryError):  # a folder is no object
            return None

    def exists(self, key: str) -> bool:
        """Whether the object is there."""
        return self.size(key) is not None

    def size(self, key: str) -> int | None:
        """Bytes of an object, or None where there is none."""
        try:
            return int(obstore.head(self._backend, check_key(key))["size"])
        except FileNotFoundError:
            return None

    def list(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        """Yield (key, bytes) of all objects under a prefix, in no particular order."""
        if prefix:
            check_key(prefix.rstrip("/"))
        for batch in obstore.list(self._backend, prefix or None):
            for meta in batch:
                yield str(meta["path"]), int(meta["size"])

    def list_with_times(self, prefix: str) -> Iterator[tuple[str, datetime]]:
        """Yield (key, time of its last write by the store's own clock) of all objects under a prefix."""
        check_key(prefix.rstrip("/"))
        for batch in obstore.list(self._backend, prefix):
            for meta in batch:
                yield str(meta["path"]), meta["last_modified"]

    def copy(self, key: str, to: str) -> None:
        """Copy an object inside the store, without moving its bytes through this process.

        Raises:
            FileNotFoundError: There is no such object.
        """
        obstore.copy(self._backend, check_key(key), check_key(to))

    def delete(self, key: str) -> None:
        """Remove one object; it is no error when it is already gone."""
        try:
            obstore.delete(self._backend, check_key(key))
        except FileNotFoundError:
            return

    def put_json(self, key: str, value: Any) -> None:  # noqa: ANN401 - any JSON value
        """Write or replace a JSON document."""
        self.put(key, json.dumps(value).encode())

    def create_json(self, key: str, value: Any) -> bool:  # noqa: ANN401 - any JSON value
        """Create-if-absent for a JSON document; False when it exists."""
        return self.create(key, json.dumps(value).encode())

    def get_json(self, key: str) -> Any:  # noqa: ANN401 - any JSON value
        """Parsed JSON document, or None where there is none."""
        data = self.get(key)
        return None if data is None else json.loads(data)

    def upload(self, path: Path, key: str) -> str:
        """Copy a local file into the store.

        Returns:
            The SHA-256 of its content, in hexadecimal.
        """
        obstore.put(self._backend, check_key(key), path)
        return file_digest(path)

    def chunks(self, key: str) -> Iterator[bytes]:
        """Content of an object, piece by piece as it arrives.

        Raises:
            FileNotFoundError: There is no such object.
        """
        try:
            for chunk in obstore.get(self._backend, check_key(key)).stream():
                yield bytes(chunk)
        except IsADirectoryError as error:
            raise FileNotFoundError(key) from error

    def place(self, path: Path, key: str) -> None:
        """Put a local file that will never change into the store.

        Where the store is a folder on the same disk, the object is a second name of the file: nothing is copied. Its
        content is then on the disk; `sync_names` does the same for its name.

        Raises:
            OSError: The disk refuses.
        """
        if self._is_folder:
            _force(path)
        if not self._is_folder or not self._link(path, key):
            obstore.put(self._backend, check_key(key), path)

    def sync(self, *keys: str) -> None:
        """Force objects to the disk, where the store is a folder; other stores answer a write only when it is safe.

        Raises:
            OSError: The disk refuses.
        """
        if self._is_folder:
            for key in keys:
                _force(self._path_of(key))
            self.sync_names(*keys)

    def sync_names(self, *keys: str) -> None:
        """Force the names of objects to the disk, whose content already is; see `sync`.

        Raises:
            OSError: The disk refuses.
        """
        if self._is_folder:
            for folder in dict.fromkeys(self._path_of(key).parent for key in keys):
                _force(folder)

    @property
    def _is_folder(self) -> bool:
        return self.url.startswith("file://")

    def _path_of(self, key: str) -> Path:
        return Path(self.url.removeprefix("file://")) / check_key(key)

    def _link(self, path: Path, key: str) -> bool:
        """Whether the file could get its second name."""
        target = self._path_of(key)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.hardlink_to(path)
        except FileExistsError:
            return self._replace_by_link(path, target)
        except OSError:  # another disk, or one without links: the caller copies
            return False
        return True

    @staticmethod
    def _replace_by_link(path: Path, target: Path) -> bool:
        part = target.with_name(f".{target.name}.{os.getpid()}.part")
        part.unlink(missing_ok=True)
        part.hardlink_to(path)
        part.replace(target)
        # Renaming onto a name of the same file does nothing at all.
        part.unlink(missing_ok=True)
        return True

    def download(self, key: str, path: Path) -> None:
        """Copy an object to a local file, atomically.

        Raises:
            FileNotFoundError: There is no such object.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.part")
        with part.open("wb") as out:
            for chunk in self.chunks(key):
                out.write(chunk)
        part.replace(path)

    async def get_async(self, key: str) -> bytes | None:
        """`get` for triggers: never blocks the event loop."""
        try:
            answer = await obstore.get_async(self._backend, check_key(key))
            return bytes(await answer.bytes_async())
        except (FileNotFoundError, IsADirectoryError):
            return None

    async def get_json_async(self, key: str) -> Any:  # noqa: ANN401 - any JSON value
        """`get_json` for triggers."""
        data = await self.get_async(key)
        return None if data is None else cast("Any", json.loads(data))

    async def put_json_async(self, key: str, value: Any) -> None:  # noqa: ANN401 - any JSON value
        """`put_json` for triggers."""
        await obstore.put_async(self._backend, check_key(key), json.dumps(value).encode())


def _force(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def file_digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()
