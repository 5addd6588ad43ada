"""The store port behaves the same on files and on S3."""

from __future__ import annotations

from include.core.store import ObjectStore


def test_create_if_absent_keeps_the_first_object(any_store: ObjectStore) -> None:
    assert any_store.create("a/b.json", b"first") is True
    assert any_store.create("a/b.json", b"second") is False
    assert any_store.get("a/b.json") == b"first"


def test_an_absent_object_is_none_not_an_error(any_store: ObjectStore) -> None:
    assert any_store.get("nothing") is None
    assert any_store.size("nothing") is None


def test_stores_of_two_tests_do_not_share_objects(any_store: ObjectStore) -> None:
    assert list(any_store.list()) == []
