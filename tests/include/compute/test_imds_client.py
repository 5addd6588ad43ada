"""The watcher survives whatever the endpoint does."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator

import pytest

from include.compute.imds import InstanceFacts, MetadataEmulator
from include.compute.imds_client import LINK_LOCAL, MetadataClient, MetadataError, NoticeWatch, endpoint_of
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
