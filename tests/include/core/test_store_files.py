"""Large files into a store: linked where it is a folder, and safe from a loss of power when the store says so."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from include.core.errors import UserError
from include.core.store import ObjectStore


def test_placed_file_is_the_object_and_replaces_what_was_there(any_store: ObjectStore, tmp_path: Path) -> None:
    for content in (b"first", b"second" * 1000):
        path = tmp_path / content[:5].decode()
        path.write_bytes(content)
        any_store.place(path, "a/b")
        any_store.place(path, "a/b")
        any_store.sync_names("a/b")
        any_store.sync("a/b")
        assert any_store.get("a/b") == content
    assert [key for key, _ in any_store.list("a")] == ["a/b"]


def test_folder_on_the_same_disk_takes_a_second_name_and_no_second_copy(
    file_store: ObjectStore, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    file_store.place(path, "a/b")
    assert path.stat().st_nlink == 2
    path.unlink()
    assert file_store.get("a/b") == b"content"
    file_store.put("a/b", b"other")
    assert file_store.get("a/b") == b"other"


def test_replacing_a_placed_object_leaves_the_file_alone(file_store: ObjectStore, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    file_store.place(path, "a/b")
    file_store.put("a/b", b"spoilt")
    assert path.read_bytes() == b"content"


def test_disk_without_links_gets_a_copy(
    file_store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, target: Path) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    path = tmp_path / "file"
    path.write_bytes(b"content")
    file_store.place(path, "a/b")
    assert path.stat().st_nlink == 1
    assert file_store.get("a/b") == b"content"


def test_times_are_those_of_the_last_write(any_store: ObjectStore) -> None:
    before = datetime.now(UTC) - timedelta(seconds=2)  # some stores keep whole seconds
    any_store.put("a/b", b"1")
    ((key, written),) = any_store.list_with_times("a")
    assert key == "a/b"
    assert before <= written <= datetime.now(UTC) + timedelta(seconds=2)


def test_keys_outside_the_store_are_refused(file_store: ObjectStore, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    for call in (lambda: file_store.place(path, "../x"), lambda: list(file_store.list_with_times("../x"))):
        with pytest.raises(UserError, match="outside the store"):
            call()
