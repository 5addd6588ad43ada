"""Samples of a WebDataset archive: neighbouring files with one name and several endings.

``000017.jpg`` and ``000017.cls`` are one sample, whose name ends at the first dot after the last slash. The image is
the member with an image ending, the class the text of the member that ends in ``.cls``.
"""

from __future__ import annotations

from collections.abc import Iterator
from mmap import mmap
from typing import NamedTuple

from include.core.errors import DataError
from include.data.location import IMAGE_SUFFIXES
from include.data.stream.tar_members import Member, members_of

CLASS_ENDING = ".cls"
_LONGEST_CLASS = 256


class Sample(NamedTuple):
    """One picture of an archive and its class.

    Attributes:
        image: Where the encoded picture is.
        label: Text of the class.
    """

    image: Member
    label: str


def _split(name: str) -> tuple[str, str]:
    """Name of the sample and ending, in lower case with its dot, of a member."""
    dot = name.find(".", name.rfind("/") + 1)
    return (name, "") if dot < 0 else (name[:dot], name[dot:].lower())


def _incomplete(where: str, name: str, lacks: str) -> DataError:
    return DataError(
        f"a sample of the archive has no {lacks}",
        where=where,
        found=name,
        allowed=f"for each sample one picture ({', '.join(IMAGE_SUFFIXES)}) and one {CLASS_ENDING} file side by side",
    )


def _label(data: bytes | mmap, member: Member, where: str) -> str:
    try:
        text = data[member.start : member.start + min(member.size, _LONGEST_CLASS + 1)].decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise DataError("a class is not UTF-8", where=f"{where}, {member.name}", found=str(error)) from error
    if not text or len(text) > _LONGEST_CLASS or not text.isprintable():
        allowed = f"one line of 1 to {_LONGEST_CLASS} characters"
        raise DataError(
            "a class is not a name", where=f"{where}, {member.name}", found=repr(text)[:80], allowed=allowed
        )
    return text


def samples_of(data: bytes | mmap, *, where: str) -> Iterator[Sample]:
    """The samples of an archive, in its order; members that are neither picture nor class are passed over.

    Raises:
        DataError: The archive is damaged or hostile, or a sample lacks its picture or its class.
    """
    name: str | None = None
    image: Member | None = None
    label: Member | None = None
    for member in members_of(data, where=where):
        of, ending = _split(member.name)
        if of != name:
            if name is not None and (image or label):
                yield _sample(data, where, name, image, label)
            name, image, label = of, None, None
        if ending == CLASS_ENDING:
            label = member
        elif ending in IMAGE_SUFFIXES:
            image = member
    if name is not None and (image or label):
        yield _sample(data, where, name, image, label)


def _sample(data: bytes | mmap, where: str, name: str, image: Member | None, label: Member | None) -> Sample:
    if image is None or label is None:
        raise _incomplete(where, name, "picture" if image is None else "class")
    return Sample(image, _label(data, label, where))
