"""Where raw data lies: a file that a library ships, a path under a data root, or an object store.

Everything is read as bytes first: the content digest is taken over exactly the bytes that are parsed afterwards.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from obstore.exceptions import GenericError, PermissionDeniedError, UnauthenticatedError

from include.config.settings import REPO
from include.core.errors import DataError
from include.core.store import ObjectStore

IMAGE_SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")
TABLE_FORMATS = {
    ".csv": "csv", ".csv.gz": "csv", ".jsonl": "jsonl", ".jsonl.gz": "jsonl", ".ndjson": "jsonl",
    ".parquet": "parquet", ".pq": "parquet", ".orc": "orc", ".feather": "feather", ".arrow": "feather",
}  # fmt: skip
ARCHIVE_SUFFIX = ".tar"
# Kinds of object stores.
STORES = ("s3", "gs", "az")
_SHOWN_NAMES = 5
# Anything else (no network, throttling) may pass: the job fails without blaming the workload, and may be tried again.
_REFUSALS = (FileNotFoundError, PermissionError, PermissionDeniedError, UnauthenticatedError)


@dataclass(frozen=True, slots=True, kw_only=True)
class RawFile:
    """One raw file.

    Attributes:
        name: Path relative to the source, with ``/``; the file name for a single file.
        data: Its content.
    """

    name: str
    data: bytes


def table_format(name: str) -> str | None:
    """``csv``, ``jsonl``, ``parquet``, ``orc`` or ``feather`` by the end of a file name; None for anything else."""
    lower = name.lower()
    return next((kind for suffix, kind in TABLE_FORMATS.items() if lower.endswith(suffix)), None)


def package_file(*, package: str, path: str) -> RawFile:
    """Read a file of an installed library without importing the library.

    Raises:
        DataError: The library is not installed, or has no such file inside it.
    """
    where = "data.source"
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise DataError(
            "the package that ships the data is not installed",
            where=f"{where}.package",
            found=package,
            allowed="the import name of an installed package",
            todo="install it, or name another source",
        )
    root = Path(next(iter(spec.submodule_search_locations))).resolve()
    target = (root / path).resolve()
    if not target.is_relative_to(root) or not target.is_file():
        raise DataError("the package has no such file", where=f"{where}.path", found=path, allowed=f"a file in {root}")
    return RawFile(name=target.name, data=target.read_bytes())


def _resolve_local(uri: str, roots: tuple[Path, ...]) -> Path:
    """Real path of a local source, which must lie under one of the roots after all symlinks."""
    text = uri.removeprefix("file://")
    given = Path(text)
    candidates = [given] if given.is_absolute() else [*(root / given for root in roots), REPO / given]
    existing = next((path for path in candidates if path.exists()), None)
    allowed = "paths under " + ", ".join(str(root) for root in roots)
    real = (existing or candidates[0]).resolve()
    if not any(real.is_relative_to(root.resolve()) for root in roots):
        raise DataError(
            "the data lies outside the data roots",
            where="data.source.uri",
            found=f"{uri} -> {real}",
            allowed=allowed,
            todo="copy it there, or set PLIMSOLL_DATA_ROOTS",
        )
    if existing is None:
        raise DataError("there is no such file or folder", where="data.source.uri", found=uri, allowed=allowed)
    return real


def _local_files(path: Path, roots: tuple[Path, ...]) -> Iterator[RawFile]:
    if path.is_file():
        yield RawFile(name=path.name, data=path.read_bytes())
        return
    for member in sorted(path.rglob("*")):
        if not member.is_file() or any(part.startswith(".") for part in member.relative_to(path).parts):
            continue
        # A link inside the tree must not lead out of the roots either.
        _resolve_local(str(member), roots)
        yield RawFile(name=member.relative_to(path).as_posix(), data=member.read_bytes())


def _remote_files(uri: str) -> Iterator[RawFile]:
    scheme, _, rest = uri.partition("://")
    bucket, _, key = rest.partition("/")
    store = ObjectStore(f"{scheme}://{bucket}")
    key = key.rstrip("/")
    if table_format(key) is not None or key.lower().endswith(ARCHIVE_SUFFIX):
        data = store.get(key)
        if data is not None:
            yield RawFile(name=key.rpartition("/")[2], data=data)
        return
    prefix = f"{key}/" if key else ""
    for member in sorted(name for name, _ in store.list(prefix)):
        data = store.get(member)
        if data is not None:
            yield RawFile(name=member.removeprefix(prefix), data=data)


def uri_files(uri: str, *, roots: tuple[Path, ...]) -> tuple[RawFile, ...]:
    """Read all files of a URI: one for a table, many for a folder.

    Args:
        uri: Path under a data root, ``file://`` or an object-store URI.
        roots: Folders that local data may lie in.

    Raises:
        DataError: Nothing is there, it lies outside the roots, or the store does not let us in.
    """
    if "://" not in uri or uri.startswith("file://"):
        return tuple(_local_files(_resolve_local(uri, roots), roots))
    if uri.partition("://")[0] not in STORES:
        raise DataError(
            "there is no object store of this kind",
            where="data.source.uri",
            found=uri,
            allowed=f"a path, file:// or {', '.join(f'{name}://' for name in STORES)}",
        )
    try:
        files = tuple(_remote_files(uri))
    except (*_REFUSALS, GenericError) as error:
        # Listing a bucket that does not exist is a generic error that wraps the answer 404.
        if isinstance(error, GenericError) and "status: 404" not in str(error):
            raise
        raise DataError(
            "the object store does not give the data",
            where="data.source.uri",
            found=f"{uri}: {str(error).splitlines()[0][:200]}",
            todo="check the URI, and the credentials and endpoint in the environment (AWS_*, GOOGLE_*, AZURE_*)",
        ) from error
    if not files:
        raise DataError(
            "there is no such object or folder",
            where="data.source.uri",
            found=uri,
            allowed=f"an object ending in {', '.join(TABLE_FORMATS)} or {ARCHIVE_SUFFIX}, "
            f"a folder of class folders with images, or a folder of WebDataset archives",
        )
    return files


def local_path(uri: str, *, roots: tuple[Path, ...]) -> Path:
    """Real path of a local file or folder.

    Raises:
        DataError: Nothing is there, or it lies outside the roots.
    """
    return _resolve_local(uri, roots)


def size_on_disk(uri: str, *, roots: tuple[Path, ...]) -> int:
    """Bytes of a local file or folder.

    Raises:
        DataError: Nothing is there, or it lies outside the roots.
    """
    path = _resolve_local(uri, roots)
    return sum(member.stat().st_size for member in ([path] if path.is_file() else path.rglob("*")))


def stamp_on_disk(uri: str, *, roots: tuple[Path, ...]) -> tuple[int, int, int]:
    """Files, bytes and newest change (nanoseconds) of a local source: equal stamps mean that nobody wrote to it.

    Raises:
        DataError: Nothing is there, or it lies outside the roots.
    """
    path = _resolve_local(uri, roots)
    facts = [member.stat() for member in ([path] if path.is_file() else path.rglob("*"))]
    return len(facts), sum(fact.st_size for fact in facts), max((fact.st_mtime_ns for fact in facts), default=0)


def is_local(uri: str) -> bool:
    """Whether a URI points to this machine's disk."""
    return "://" not in uri or uri.startswith("file://")


def shown(names: list[str]) -> str:
    """First names of a list for a message."""
    more = len(names) - _SHOWN_NAMES
    return ", ".join(names[:_SHOWN_NAMES]) + (f" and {more} more" if more > 0 else "")
