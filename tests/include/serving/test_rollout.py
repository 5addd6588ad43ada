from __future__ import annotations

import pytest

from include.core.clock import FakeClock
from include.core.errors import GateError, UserError
from include.core.store import ObjectStore
from include.serving.desired import (
    ActualState,
    DesiredState,
    ServedVersion,
    actual_key,
    mark_verified,
    read_desired,
    request_version,
)
from include.serving.rollout import SERVED_LIMIT_S, require_server, undo, wait_until_served


def version(number: str) -> ServedVersion:
    return ServedVersion(model_name="toy", version=number, model_uri="u", sha256="a" * 64, manifest_uri="m")


def report(store: ObjectStore, desired: DesiredState, **fields: object) -> None:
    actual = ActualState.model_validate({"revision": desired.revision, "url": "u", **fields})
    store.put_json(actual_key("toy"), actual.model_dump(mode="json"))


def test_only_the_answer_to_this_revision_counts(file_store: ObjectStore) -> None:
    old = request_version(file_store, "toy", version("1"))
    report(file_store, old, state="serving", version="1")
    clock = FakeClock()
    desired = request_version(file_store, "toy", version("1"))
    with pytest.raises(GateError, match="did not act on version 1"):
        wait_until_served(file_store, "toy", desired, clock=clock)
    assert clock.elapsed == pytest.approx(SERVED_LIMIT_S, abs=1)
    report(file_store, desired, state="serving", version="1")
    assert wait_until_served(file_store, "toy", desired, clock=clock).version == "1"


def test_a_loading_server_is_waited_for(file_store: ObjectStore) -> None:
    desired = request_version(file_store, "toy", version("1"))
    report(file_store, desired, state="loading")

    class Ticking(FakeClock):
        def sleep(self, seconds: float) -> None:
            report(file_store, desired, state="serving", version="1")

    assert wait_until_served(file_store, "toy", desired, clock=Ticking()).state == "serving"


def test_the_servers_reason_is_passed_on(file_store: ObjectStore) -> None:
    desired = request_version(file_store, "toy", version("2"))
    report(file_store, desired, state="failed", version="1", error="artefact is corrupt")
    with pytest.raises(GateError, match="artefact is corrupt"):
        wait_until_served(file_store, "toy", desired)


def test_undo_says_what_serves(file_store: ObjectStore) -> None:
    first = request_version(file_store, "toy", version("1"))
    assert "serves nothing" in undo(file_store, "toy", first)
    assert "later deployment" in undo(file_store, "toy", first)
    mark_verified(file_store, "toy", request_version(file_store, "toy", version("1")))
    failed = request_version(file_store, "toy", version("2"))
    later = request_version(file_store, "toy", version("3"))
    assert "later deployment" in undo(file_store, "toy", failed)
    assert read_desired(file_store, "toy") == later
    assert "has not confirmed" in undo(file_store, "toy", later, clock=FakeClock())

    class Answering(FakeClock):
        def sleep(self, seconds: float) -> None:
            desired = read_desired(file_store, "toy")
            assert desired is not None
            report(file_store, desired, state="serving", version=desired.served.version)

    failed = request_version(file_store, "toy", version("2"))
    assert undo(file_store, "toy", failed, clock=Answering()) == "version 1 serves again"


def test_without_a_server_the_command_is_named() -> None:
    with pytest.raises(UserError, match=r"include\.serving\.server"):
        require_server("http://127.0.0.1:9", clock=FakeClock())
