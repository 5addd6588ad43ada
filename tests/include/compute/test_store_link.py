"""An outage of the store is survived, counted and reported once."""

from __future__ import annotations

import logging

import pytest

from include.compute.store_link import RETRY_AFTER_S, StoreLink
from include.core.clock import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def broken(*_: object, **__: object) -> None:
    raise OSError("no route to host")


def test_an_outage_gives_defaults_and_one_line(file_store, clock, monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    link = StoreLink(file_store, clock)
    with monkeypatch.context() as outage:
        for name in ("exists", "put_json", "create", "create_json", "list", "get_json"):
            outage.setattr(file_store, name, broken)
        answers = []
        for call in (
            lambda: link.exists("k"),
            lambda: link.put_json("k", 1),
            lambda: link.create("k", b""),
            lambda: link.claim("k", 1),
            lambda: link.names("queue"),
            lambda: link.get_json("k"),
        ):
            answers.append(call())
            clock.sleep(RETRY_AFTER_S)
        assert answers == [False, False, False, False, [], None]
        assert link.silent_s == 6 * RETRY_AFTER_S
        assert len(caplog.records) == 1
    assert link.put_json("k", 1) is True
    assert link.silent_s == 0.0
    assert "answers again" in caplog.records[-1].getMessage()


def test_an_outage_is_not_hammered(file_store, clock, monkeypatch):
    calls = []
    monkeypatch.setattr(file_store, "exists", lambda key: calls.append(key) or broken())
    link = StoreLink(file_store, clock)
    for _ in range(20):
        link.exists("k")
        clock.sleep(RETRY_AFTER_S / 10)
    assert len(calls) == 2


def test_names_are_last_segments_in_order(file_store, clock):
    for name in ("b-2", "a-1"):
        file_store.put_json(f"leases/x/queue/{name}", {})
    assert StoreLink(file_store, clock).names("leases/x/queue") == ["a-1", "b-2"]


def test_a_mistake_in_the_code_is_not_taken_for_an_outage(file_store, clock, monkeypatch):
    monkeypatch.setattr(file_store, "exists", lambda key: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        StoreLink(file_store, clock).exists("k")
