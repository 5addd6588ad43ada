"""Keys never lead out of the store."""

from __future__ import annotations

import pytest

from include.core.errors import UserError
from include.core.store import ObjectStore, check_key


@pytest.mark.parametrize(
    "key", ["", "/etc/passwd", "..", "a/../b", ".", "a/./b", "a//b", "a/", "a\\b", "a\0b", "../a", "a/.."]
)
def test_keys_that_could_leave_the_store_are_refused(key: str, file_store: ObjectStore) -> None:
    with pytest.raises(UserError, match="outside the store"):
        check_key(key)
    with pytest.raises(UserError):
        file_store.get(key)


@pytest.mark.parametrize("key", ["a", "a/b.json", "runs/w/manual__2026/x..y", ".hidden"])
def test_other_keys_are_kept_as_they_are(key: str) -> None:
    assert check_key(key) == key


@pytest.mark.parametrize("prefix", ["..", "runs/../..", "/etc", "runs/./x"])
def test_listing_stays_inside_too(prefix: str, file_store: ObjectStore) -> None:
    with pytest.raises(UserError, match="outside the store"):
        list(file_store.list(prefix))


def test_a_uri_of_another_store_is_refused(file_store: ObjectStore) -> None:
    with pytest.raises(UserError, match="outside the store"):
        file_store.key_of("s3://elsewhere/key")
