"""The watcher survives whatever the endpoint does."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from include.compute.imds import InstanceFacts, MetadataEmulator
from include.compute.imds_client import LINK_LOCAL, Instance, MetadataClient, MetadataError, NoticeWatch, endpoint_of
from tests.support.waiting import eventually


@pytest.fixture
def emulator() -> Iterator[MetadataEmulator]:
    emulator = MetadataEmulator(InstanceFacts(instance_id="i-7", instance_type="g6.xlarge", life_cycle="spot"))
    emulator.start()
    yield emulator
    emulator.stop()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_the_endpoint_is_configured_or_link_local():
    assert endpoint_of({"AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://127.0.0.1:9"}) == "http://127.0.0.1:9"
    assert endpoint_of({}) == LINK_LOCAL


def test_a_notice_is_read_once_it_is_there(emulator):
    client = MetadataClient(emulator.url)
    assert client.notice() is None
    emulator.announce(100)
    notice = client.notice()
    assert notice is not None
    assert notice.action == "terminate"
    assert 95 < notice.left_s <= 100


@pytest.mark.parametrize("jump", [timedelta(hours=1), timedelta(hours=-1)])
def test_the_time_that_is_left_does_not_depend_on_this_machines_clock(emulator, monkeypatch, jump):
    class Wrong(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(UTC) + jump

    emulator.announce(100)
    monkeypatch.setattr("include.compute.imds_client.datetime", Wrong)
    notice = MetadataClient(emulator.url).notice()
    assert notice is not None
    assert 95 < notice.left_s <= 101  # the announcement has whole seconds


def test_an_instance_is_described_or_unknown(emulator, monkeypatch):
    assert MetadataClient(emulator.url).describe() == Instance(
        instance_type="g6.xlarge", life_cycle="spot", region="local", zone="local-a", address="127.0.0.1"
    )
    monkeypatch.setattr("include.compute.imds_client._RETRY_AFTER_S", 0.0)
    assert MetadataClient(f"http://127.0.0.1:{free_port()}").describe(tries=2) == Instance()


def test_advice_to_move_is_kept_and_is_no_notice(emulator, monkeypatch):
    watch = NoticeWatch(MetadataClient(emulator.url), every_s=60)
    watch.ask()
    assert (watch.notice, watch.rebalance_at) == (None, None)
    emulator.recommend_rebalance()
    watch.ask()
    assert watch.notice is None
    assert watch.rebalance_at is not None
    monkeypatch.setattr(emulator, "_rebalance", lambda: None)
    watch.ask()
    assert watch.rebalance_at is not None
    monkeypatch.setattr(emulator, "read", lambda _: "[]")
    with pytest.raises(MetadataError, match="unreadable recommendation"):
        MetadataClient(emulator.url).rebalance_at()


def test_a_refused_token_is_renewed(emulator):
    client = MetadataClient(emulator.url)
    assert client.read("/latest/meta-data/instance-id") == "i-7"
    emulator._tokens.clear()  # as after a restart of the endpoint
    assert client.read("/latest/meta-data/instance-id") == "i-7"


def test_one_token_serves_many_questions(emulator):
    client = MetadataClient(emulator.url)
    for _ in range(5):
        client.notice()
    assert len(emulator._tokens) == 1


def test_a_garbled_notice_is_an_error_not_a_notice(emulator, monkeypatch):
    monkeypatch.setattr(emulator, "read", lambda _: '{"action": "terminate"}')
    with pytest.raises(MetadataError, match="unreadable notice"):
        MetadataClient(emulator.url).notice()


def test_trouble_is_said_once_per_outage(emulator, caplog):
    watch = NoticeWatch(MetadataClient(f"http://127.0.0.1:{free_port()}"), every_s=0.01)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            watch.ask()
    assert len(caplog.records) == 1
    assert watch.notice is None


def test_an_endpoint_that_accepts_and_never_answers_does_not_hold_the_watch_for_ever(monkeypatch):
    monkeypatch.setattr("include.compute.imds_client.TIMEOUT_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as deaf, pytest.raises(TimeoutError):
        MetadataClient(f"http://127.0.0.1:{deaf.getsockname()[1]}").notice()


def test_the_watch_notices_and_ends(emulator):
    watch = NoticeWatch(MetadataClient(emulator.url), every_s=60)
    watch.start()
    emulator.announce(120)
    watch.ask_now()
    assert eventually(lambda: watch.notice).action == "terminate"
    watch.stop()
