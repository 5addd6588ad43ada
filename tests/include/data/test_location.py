"""What may be read, and what is refused."""

from __future__ import annotations

import pytest
from obstore.exceptions import GenericError

from include.core.errors import DataError
from include.core.store import ObjectStore
from include.data.location import package_file, table_format, uri_files


def test_a_relative_path_is_looked_up_under_the_data_roots(tmp_path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    (file,) = uri_files("a.csv", roots=(tmp_path / "absent", tmp_path))
    assert (file.name, file.data) == ("a.csv", b"x,y\n1,2\n")


def test_a_path_outside_the_roots_is_refused(tmp_path) -> None:
    outside = tmp_path / "secret.csv"
    outside.write_text("x\n1\n")
    with pytest.raises(DataError, match="outside the data roots") as caught:
        uri_files(f"file://{outside}", roots=(tmp_path / "data",))
    assert "data.source.uri" in str(caught.value)
    assert str(tmp_path / "data") in str(caught.value)


@pytest.mark.parametrize("place", ["file", "folder", "member"])
def test_a_link_out_of_the_roots_is_refused(tmp_path, place) -> None:
    root, outside = tmp_path / "data", tmp_path / "outside"
    (outside / "cat").mkdir(parents=True)
    (outside / "cat" / "1.png").write_bytes(b"x")
    (root / "tree" / "cat").mkdir(parents=True)
    link, target, uri = {
        "file": (root / "a.png", outside / "cat" / "1.png", "a.png"),
        "folder": (root / "linked", outside, "linked"),
        "member": (root / "tree" / "cat" / "1.png", outside / "cat" / "1.png", "tree"),
    }[place]
    link.symlink_to(target)
    with pytest.raises(DataError, match="outside the data roots"):
        uri_files(uri, roots=(root,))


def test_a_link_inside_the_roots_is_followed(tmp_path) -> None:
    (tmp_path / "v2.csv").write_text("x\n1\n")
    (tmp_path / "current.csv").symlink_to(tmp_path / "v2.csv")
    assert uri_files("current.csv", roots=(tmp_path,))[0].data == b"x\n1\n"


def test_nothing_there_is_said_with_the_uri(tmp_path) -> None:
    with pytest.raises(DataError, match=r"no such file or folder.*absent\.csv"):
        uri_files("absent.csv", roots=(tmp_path,))


def test_a_package_file_is_read_without_importing_the_package() -> None:
    import sys

    was_imported = "bokeh_sampledata" in sys.modules
    assert package_file(package="bokeh_sampledata", path="_data/titanic_all.csv").data.startswith(b"name,class")
    assert ("bokeh_sampledata" in sys.modules) == was_imported


@pytest.mark.parametrize(
    ("package", "path", "message"),
    [
        ("no_such_package_here", "a.csv", "not installed"),
        ("bokeh_sampledata", "_data/absent.csv", "no such file"),
    ],
)
def test_an_absent_package_or_file_is_a_data_error(package, path, message) -> None:
    with pytest.raises(DataError, match=message):
        package_file(package=package, path=path)


def test_a_link_in_a_package_does_not_lead_out_of_it(tmp_path, monkeypatch) -> None:
    package = tmp_path / "lure"
    package.mkdir()
    (package / "__init__.py").touch()
    (tmp_path / "secret.csv").write_text("x\n1\n")
    (package / "data.csv").symlink_to(tmp_path / "secret.csv")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(DataError, match="no such file"):
        package_file(package="lure", path="data.csv")


def test_objects_and_folders_are_read_from_s3(s3_store: ObjectStore) -> None:
    s3_store.put("raw/a.csv", b"x\n1\n")
    s3_store.put("tree/cat/1.png", b"one")
    s3_store.put("tree/dog/2.png", b"two")
    assert uri_files(f"{s3_store.url}/raw/a.csv", roots=())[0].data == b"x\n1\n"
    tree = uri_files(f"{s3_store.url}/tree", roots=())
    assert [(f.name, f.data) for f in tree] == [("cat/1.png", b"one"), ("dog/2.png", b"two")]


@pytest.mark.parametrize("uri", ["s3://plimsoll-test/absent.csv", "s3://plimsoll-test/absent", "s3://no-such-bucket/a"])
def test_nothing_in_the_object_store_is_a_data_error(s3_environment, uri) -> None:
    with pytest.raises(DataError, match=r"data\.source\.uri") as caught:
        uri_files(uri, roots=())
    assert uri in str(caught.value)


def test_a_store_that_does_not_answer_is_not_blamed_on_the_workload(s3_environment, monkeypatch) -> None:
    def no_answer(*_: object) -> bytes:
        raise GenericError("connection refused")

    monkeypatch.setattr(ObjectStore, "get", no_answer)
    with pytest.raises(GenericError, match="connection refused"):
        uri_files("s3://plimsoll-test/t.csv", roots=())


@pytest.mark.parametrize(
    ("name", "kind"),
    [("A.CSV", "csv"), ("b.csv.gz", "csv"), ("c.parquet", "parquet"), ("d.xlsx", None), ("csv", None)],
)
def test_the_format_follows_from_the_name(name, kind) -> None:
    assert table_format(name) == kind
