"""Open the source that a workload names: first its content digest, then, only if needed, its rows."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from include.config.data_section import DataSection, DigitsSource, PackageSource
from include.core.errors import DataError
from include.data.images import PIXEL_COUNT, PIXELS, image_members, read_archives, read_images
from include.data.location import ARCHIVE_SUFFIX, RawFile, package_file, table_format, uri_files
from include.data.tables import read_table

DIGITS_LABEL = "digit"


@dataclass(frozen=True, slots=True, kw_only=True)
class RawTable:
    """Rows as the source has them.

    Attributes:
        table: All columns, the label among them.
        row_ids: What to call each row: the file name of an image; None means the number of the row, from 0.
        pixel_shape: (channels, height, width) of the ``pixels`` column of an image tree.
        skipped: Things in the source that did not become rows, by reason.
    """

    table: pa.Table
    row_ids: list[str] | None = None
    pixel_shape: tuple[int, int, int] | None = None
    skipped: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedSource:
    """A source whose content is known but not parsed yet.

    Attributes:
        digest: SHA-256 over the raw content and the way it is parsed.
        read: Parses it.
    """

    digest: str
    read: Callable[[], RawTable]


def _digest_of(files: tuple[RawFile, ...], *, how: str) -> str:
    total = hashlib.sha256(how.encode())
    for file in files:
        total.update(hashlib.sha256(file.name.encode()).digest())
        total.update(hashlib.sha256(file.data).digest())
    return total.hexdigest()


def _open_table(file: RawFile, *, label: str) -> OpenedSource:
    # The name of a single file is not part of its content; what its ending says is.
    unnamed = RawFile(name="", data=file.data)
    how = f"{table_format(file.name)}{'.gz' if file.name.lower().endswith('.gz') else ''}"
    digest = _digest_of((unnamed,), how=how)
    return OpenedSource(digest=digest, read=lambda: RawTable(table=read_table(file, label=label)))


def _open_images(files: tuple[RawFile, ...], *, label: str, side: int | None) -> OpenedSource:
    archives = _are_archives(files)

    def read() -> RawTable:
        read_files = read_archives if archives else read_images
        table, names, shape, others = read_files(files, label=label, side=side)
        what = "not an archive" if archives else "not an image"
        return RawTable(table=table, row_ids=names, pixel_shape=shape, skipped={what: others} if others else {})

    if label in {PIXELS, PIXEL_COUNT}:
        raise DataError(
            "the label column of images needs another name",
            where="data.label",
            found=label,
            allowed=f"any name but {PIXELS!r} and {PIXEL_COUNT!r}",
        )
    return OpenedSource(digest=_digest_of(files, how=f"{'archives' if archives else 'images'} {side}"), read=read)


def _are_archives(files: tuple[RawFile, ...]) -> bool:
    """Whether this is a WebDataset set: archives, and no pictures in class folders."""
    return any(file.name.lower().endswith(ARCHIVE_SUFFIX) for file in files) and not image_members(files)[0]


def _open_digits() -> OpenedSource:
    from sklearn.datasets import load_digits

    bunch = load_digits()
    columns = {f"pixel_{i}": pa.array(bunch.data[:, i]) for i in range(bunch.data.shape[1])}
    columns[DIGITS_LABEL] = pa.array(bunch.target)
    digest = hashlib.sha256(bunch.data.tobytes() + bunch.target.tobytes()).hexdigest()
    return OpenedSource(digest=digest, read=lambda: RawTable(table=pa.table(columns)))


def open_source(data: DataSection, *, roots: tuple[Path, ...]) -> OpenedSource:
    """Fetch the raw content of a workload's source.

    Args:
        data: The ``data`` section of the workload.
        roots: Folders that local data may lie in.

    Raises:
        DataError: The source is absent, outside the roots or of an unknown kind.
    """
    source = data.source
    if isinstance(source, DigitsSource):
        return _open_digits()
    if isinstance(source, PackageSource):
        return _open_table(package_file(package=source.package, path=source.path), label=data.label)
    files = uri_files(source.uri, roots=roots)
    if len(files) == 1 and "/" not in files[0].name and not _are_archives(files):
        return _open_table(files[0], label=data.label)
    return _open_images(files, label=data.label, side=source.image_size)


def roots_of(*, data_roots: tuple[Path, ...], store_url: str) -> tuple[Path, ...]:
    """Folders that local data may lie in: the data roots, and the object store when it is a folder."""
    extra = (Path(store_url.removeprefix("file://")),) if store_url.startswith("file://") else ()
    return (*data_roots, *extra)
