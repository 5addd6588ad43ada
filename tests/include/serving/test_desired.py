from __future__ import annotations

from include.core.clock import FakeClock
from include.core.store import ObjectStore
from include.serving.desired import (
    DesiredState,
    ServedVersion,
    desired_key,
    mark_verified,
    read_actual,
    read_desired,
    request_version,
    roll_back,
)


def version(number: str) -> ServedVersion:
    return ServedVersion(model_name="toy", version=number, model_uri="u", sha256=number[-1] * 64, manifest_uri="m")


def deploy(store: ObjectStore, number: str) -> DesiredState:
    return mark_verified(store, "toy", request_version(store, "toy", version(number)))


def test_the_document_is_what_was_written(any_store: ObjectStore) -> None:
    state = request_version(any_store, "toy", version("1"), clock=FakeClock())
    assert read_desired(any_store, "toy") == state
    assert state.requested_at == "2026-01-01T00:00:00+00:00"
    assert any_store.exists("serving/toy/desired.json")
    assert read_desired(any_store, "other") is None
    assert read_actual(any_store, "toy") is None


def test_each_write_has_a_revision_and_verifying_keeps_it(file_store: ObjectStore) -> None:
    first = request_version(file_store, "toy", version("1"))
    verified = mark_verified(file_store, "toy", first)
    again = request_version(file_store, "toy", version("1"))
    assert verified.revision == first.revision != again.revision
    assert verified.verified
    assert not again.verified


def test_the_previous_version_is_the_last_verified_one(file_store: ObjectStore) -> None:
    deploy(file_store, "1")
    request_version(file_store, "toy", version("2"))
    third = request_version(file_store, "toy", version("3"))
    assert third.previous == version("1"), "version 2 was never verified"


def test_the_same_version_again_keeps_its_predecessor(file_store: ObjectStore) -> None:
    deploy(file_store, "1")
    deploy(file_store, "2")
    again = request_version(file_store, "toy", version("2"))
    assert again.previous == version("1")
    assert request_version(file_store, "toy", version("2")).previous == version("1"), "also when interrupted"


def test_rolling_back_asks_for_the_previous_version_as_verified(file_store: ObjectStore) -> None:
    deploy(file_store, "1")
    failed = request_version(file_store, "toy", version("2"))
    restored = roll_back(file_store, "toy", failed)
    assert restored is not None
    assert (restored.served, restored.verified) == (version("1"), True)
    assert restored.revision != failed.revision
    assert read_desired(file_store, "toy") == restored


def test_rolling_back_the_first_version_withdraws_it(file_store: ObjectStore) -> None:
    failed = request_version(file_store, "toy", version("1"))
    assert roll_back(file_store, "toy", failed) is None
    assert not file_store.exists(desired_key("toy"))


def test_prefixes_are_apart(file_store: ObjectStore) -> None:
    request_version(file_store, "toy", version("1"), prefix="private/serving")
    assert read_desired(file_store, "toy") is None
    assert read_desired(file_store, "toy", prefix="private/serving") is not None
