"""Archives from anybody: what is read, and what is refused."""

from __future__ import annotations

import io
import tarfile

import pytest

from include.core.errors import DataError
from include.data.stream.tar_members import members_of
from tests.support.streamed import tar


def names(data: bytes) -> list[str]:
    return [member.name for member in members_of(data, where="s3://b/x.tar")]


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_members_are_found_as_tarfile_wrote_them(form: int) -> None:
    out = io.BytesIO()
    long = "/".join(["folder" * 5] * 4) + "/ä.jpg" if form != tarfile.USTAR_FORMAT else "d" * 90 + "/" + "f" * 60
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        folder = tarfile.TarInfo("folder")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name, content in (("./a.jpg", b"x" * 513), ("empty", b""), (long, b"yz")):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    data = out.getvalue()
    found = list(members_of(data, where="here"))
    assert [m.name for m in found] == ["a.jpg", "empty", long]
    assert [data[m.start : m.start + m.size] for m in found] == [b"x" * 513, b"", b"yz"]


@pytest.mark.parametrize("name", ["/etc/passwd", "../x", "a/../../x", "a\\b", "a\nb", "a/.."])
def test_names_that_could_leave_a_folder_are_refused(name: str) -> None:
    with pytest.raises(DataError, match="name that") as caught:
        names(tar([("good.jpg", b"1"), (name, b"2")]))
    assert "s3://b/x.tar" in str(caught.value)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_are_refused(kind: bytes) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        info = tarfile.TarInfo("a.jpg")
        info.type, info.linkname = kind, "/etc/passwd"
        archive.addfile(info)
    with pytest.raises(DataError, match=r"link|device|pipe"):
        names(out.getvalue())


def test_an_archive_that_is_cut_off_is_refused() -> None:
    data = tar([("a.jpg", b"x" * 5000)])
    with pytest.raises(DataError, match="cut off"):
        names(data[:2048])


def test_a_size_that_lies_is_refused() -> None:
    data = bytearray(tar([("a.jpg", b"x")]))
    data[124:136] = b"77777777777\0"
    with pytest.raises(DataError, match="cut off"):
        names(bytes(data))
    data[124:136] = b"not a number"
    with pytest.raises(DataError, match="damaged"):
        names(bytes(data))


@pytest.mark.parametrize("data", [b"P" * 4096, b"\x1f\x8b" + b"1" * 2000])
def test_something_else_is_refused(data: bytes) -> None:
    with pytest.raises(DataError, match="no tar archive"):
        names(data)
