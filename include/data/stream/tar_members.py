"""What a tar archive holds: names, places and sizes of its files, without unpacking anything.

The archive may come from anybody. Nothing is ever written under a name from it, and still a name that could leave a
folder, a link, a device or a size beyond the end of the archive is refused: such an archive was not made from samples.

Field positions: POSIX.1-1988 (ustar) and POSIX.1-2001 (pax) header blocks; GNU's long names are type ``L``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from mmap import mmap
from typing import NamedTuple

from include.core.errors import DataError

_BLOCK = 512
_MOST_MEMBERS = 10_000_000
_LONGEST_NAME = 4096
_FILE, _FOLDER, _GNU_NAME, _PAX, _PAX_GLOBAL = b"0\0", b"5", b"L", b"x", b"g"
_PAX_FIELD = re.compile(rb"(\d+) (path|size)=")
_KINDS = {b"1": "hard link", b"2": "symbolic link", b"3": "device", b"4": "device", b"6": "named pipe"}


class Member(NamedTuple):
    """One file of an archive.

    Attributes:
        name: Relative path with ``/``.
        start: Where its content starts in the archive.
        size: Bytes of content.
    """

    name: str
    start: int
    size: int


def _refused(where: str, what: str, found: object) -> DataError:
    return DataError(
        f"the tar archive {what}",
        where=where,
        found=str(found)[:200],
        allowed="a plain tar archive of files with relative names, no links",
        todo="make the archive again from its samples",
    )


def _number(field: bytes, where: str) -> int:
    if field[0] & 0x80:  # GNU's form for sizes beyond 8 GiB
        return int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big")
    try:
        return int(field.strip(b" \0") or b"0", 8)
    except ValueError as error:
        raise _refused(where, "is damaged", f"size {field!r}") from error


def checked_name(raw: bytes, where: str) -> str:
    """A member's name as a relative path.

    Raises:
        DataError: It is absolute, leaves its folder, is not UTF-8 or has characters that no file name has.
    """
    try:
        name = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _refused(where, "has a name that is not UTF-8", repr(raw)) from error
    name = name.removeprefix("./")
    if not name or len(name) > _LONGEST_NAME or name[0] == "/" or "\\" in name or not name.isprintable():
        raise _refused(where, "has a name that is not allowed", repr(name))
    if ".." in name and ".." in name.split("/"):
        raise _refused(where, "has a name that leaves its folder", repr(name))
    return name


def _pax_fields(data: bytes) -> dict[bytes, bytes]:
    """``path`` and ``size`` of an extended header, whose records are a length, a key and a value."""
    out, at = {}, 0
    while at < len(data):
        length = data[at : data.find(b" ", at)]
        if not length.isdigit() or int(length) <= 0:
            break
        record = data[at : at + int(length)]
        match = _PAX_FIELD.match(record)
        if match:
            out[match[2]] = record[match.end() : -1]
        at += int(length)
    return out


def _header_name(header: bytes) -> bytes:
    name = header[: header.find(b"\0", 0, 100)] if b"\0" in header[:100] else header[:100]
    if header[345] and header[257:263] == b"ustar\0":
        return header[345:500].rstrip(b"\0") + b"/" + name
    return name


def members_of(data: bytes | mmap, *, where: str) -> Iterator[Member]:
    """The files of an archive, in its order.

    Args:
        data: The archive; only headers are read.
        where: What to call it in errors.

    Raises:
        DataError: It is not a tar archive, is cut off, or holds something other than files with harmless names.
    """
    at, total = 0, len(data)
    long_name: bytes | None = None
    long_size: int | None = None
    for _ in range(_MOST_MEMBERS):
        header = data[at : at + _BLOCK]
        if not header or header[0] == 0:  # the end, with or without the two empty blocks that should mark it
            return
        if header[257:262] != b"ustar":
            raise _refused(where, "is damaged, or is no tar archive", f"no header at byte {at}")
        kind = header[156:157]
        size = _number(header[124:136], where) if long_size is None or kind not in _FILE else long_size
        start, at = at + _BLOCK, at + _BLOCK + -(-size // _BLOCK) * _BLOCK
        if start + size > total:
            raise _refused(where, "is cut off", f"{total} bytes, its content needs {start + size}")
        if kind in _FILE:
            yield Member(checked_name(long_name or _header_name(header), where), start, size)
            long_name = long_size = None
        elif kind == _GNU_NAME:
            long_name = bytes(data[start : start + min(size, _LONGEST_NAME + 1)]).rstrip(b"\0")
        elif kind == _PAX:
            fields = _pax_fields(bytes(data[start : start + size]))
            long_name = fields.get(b"path", long_name)
            long_size = int(fields[b"size"]) if fields.get(b"size", b"").isdigit() else None
        elif kind not in (_FOLDER, _PAX_GLOBAL):
            raise _refused(where, f"has a {_KINDS.get(kind, 'member of an unknown kind')}", _header_name(header))
    raise _refused(where, "has too many members", f"more than {_MOST_MEMBERS}")
