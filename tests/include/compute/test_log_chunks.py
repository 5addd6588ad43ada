"""A growing file becomes numbered objects without gaps, whatever the store does."""

from __future__ import annotations

from pathlib import Path

import pytest

from include.compute.log_chunks import CHUNK_BYTES, LogShipper
from include.compute.store_link import RETRY_AFTER_S, StoreLink
from include.core.clock import FakeClock
from include.core.store import ObjectStore


class Rig:
    def __init__(self, store: ObjectStore, folder: Path) -> None:
        self.store, self.clock, self.path = store, FakeClock(), folder / "output.log"
        self.path.touch()
        self.shipper = LogShipper(path=self.path, base="base", link=StoreLink(store, self.clock), clock=self.clock)

    def write(self, data: bytes) -> None:
        with self.path.open("ab") as out:
            out.write(data)

    def chunks(self) -> list[bytes]:
        keys = sorted(key for key, _ in self.store.list("base/log"))
        assert keys == [f"base/log/{number:06d}" for number in range(1, len(keys) + 1)]
        return [self.store.get(key) or b"" for key in keys]


@pytest.fixture
def rig(file_store: ObjectStore, tmp_path: Path) -> Rig:
    return Rig(file_store, tmp_path)


def test_a_few_lines_wait_for_two_seconds(rig):
    rig.write(b"one\n")
    rig.shipper.ship()
    assert rig.chunks() == []
    rig.clock.sleep(2.0)
    rig.write(b"two\n")
    rig.shipper.ship()
    assert rig.chunks() == [b"one\ntwo\n"]


def test_silence_makes_no_chunks(rig):
    for _ in range(5):
        rig.clock.sleep(2.0)
        rig.shipper.ship(final=True)
    assert rig.chunks() == []


def test_much_output_is_cut_at_lines_without_waiting(rig):
    line = b"x" * 99 + b"\n"
    text = line * 2000
    rig.write(text)
    rig.shipper.ship()
    assert all(len(chunk) <= CHUNK_BYTES and chunk.endswith(b"\n") for chunk in rig.chunks())
    rig.shipper.ship(final=True)
    assert b"".join(rig.chunks()) == text
    assert rig.shipper.chunks == len(rig.chunks()) == 4


def test_a_line_longer_than_a_chunk_is_cut_anyway(rig):
    rig.write(b"y" * (2 * CHUNK_BYTES + 7))
    rig.shipper.ship(final=True)
    assert [len(chunk) for chunk in rig.chunks()] == [CHUNK_BYTES, CHUNK_BYTES, 7]


def test_an_unfinished_line_goes_out_at_the_end(rig):
    rig.write(b"done\nno newline")
    rig.shipper.ship(final=True)
    assert b"".join(rig.chunks()) == b"done\nno newline"


def test_a_chunk_whose_answer_was_lost_is_neither_torn_nor_doubled(rig, monkeypatch):
    real = rig.store.create

    def arrives_but_fails(key: str, data: bytes) -> bool:
        real(key, data)
        raise OSError("connection reset")

    monkeypatch.setattr(rig.store, "create", arrives_but_fails)
    rig.write(b"first\n")
    assert not rig.shipper.ship(final=True)
    monkeypatch.setattr(rig.store, "create", real)
    rig.clock.sleep(RETRY_AFTER_S)
    rig.write(b"second\n")
    assert rig.shipper.ship(final=True)
    assert rig.chunks() == [b"first\n", b"second\n"]


def test_output_during_an_outage_is_not_lost(rig, monkeypatch):
    def fails(key: str, data: bytes) -> bool:
        raise OSError("no route")

    with monkeypatch.context() as outage:
        outage.setattr(rig.store, "create", fails)
        for number in range(3):
            rig.write(b"%d\n" % number)
            rig.clock.sleep(2.0)
            assert not rig.shipper.ship()
    rig.clock.sleep(RETRY_AFTER_S)
    assert rig.shipper.ship(final=True)
    assert b"".join(rig.chunks()) == b"0\n1\n2\n"


def test_nodes_but_the_first_have_logs_of_their_own(rig):
    other = LogShipper(path=rig.path, base="base", link=StoreLink(rig.store, rig.clock), clock=rig.clock, node_rank=1)
    rig.write(b"one\n")
    other.ship(final=True)
    assert rig.chunks() == []
    assert rig.store.get("base/log-1/000001") == b"one\n"
