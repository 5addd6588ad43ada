"""The emulator answers like EC2's metadata service, and nobody can interrupt a lease through its port."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator

import pytest

from include.compute.imds import InstanceFacts, MetadataEmulator

TTL = "X-aws-ec2-metadata-token-ttl-seconds"
TOKEN = "X-aws-ec2-metadata-token"
NOTICES = (
    "/latest/meta-data/spot/instance-action",
    "/latest/meta-data/spot/termination-time",
    "/latest/meta-data/events/recommendations/rebalance",
)


@pytest.fixture
def emulator() -> Iterator[MetadataEmulator]:
    emulator = MetadataEmulator(InstanceFacts(instance_id="i-7", instance_type="g6.xlarge", life_cycle="spot"))
    emulator.start()
    yield emulator
    emulator.stop()


def ask(emulator: MetadataEmulator, method: str, path: str, **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(emulator.url.removeprefix("http://"), timeout=5)
    connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def token(emulator: MetadataEmulator, ttl: str = "60") -> str:
    status, text = ask(emulator, "PUT", "/latest/api/token", **{TTL: ttl})
    assert status == 200
    return text


def read(emulator: MetadataEmulator, path: str) -> tuple[int, str]:
    return ask(emulator, "GET", path, **{TOKEN: token(emulator)})


@pytest.mark.parametrize("headers", [{}, {TOKEN: "made-up"}], ids=["no token", "unknown token"])
def test_reading_needs_a_token(emulator, headers):
    assert ask(emulator, "GET", "/latest/meta-data/instance-type", **headers)[0] == 401


def test_a_token_runs_out(emulator, monkeypatch):
    short = token(emulator, "1")
    assert emulator.accepts(short)
    later = __import__("time").monotonic() + 2
    monkeypatch.setattr("include.compute.imds.time.monotonic", lambda: later)
    assert ask(emulator, "GET", "/latest/meta-data/instance-id", **{TOKEN: short})[0] == 401


@pytest.mark.parametrize("ttl", [None, "0", "-5", "21601", "soon", "1.5"])
def test_a_token_needs_a_time_to_live_within_bounds(emulator, ttl):
    headers = {} if ttl is None else {TTL: ttl}
    assert ask(emulator, "PUT", "/latest/api/token", **headers)[0] == 400


def test_a_forwarded_request_gets_no_token(emulator):
    assert ask(emulator, "PUT", "/latest/api/token", X_Forwarded_For="10.0.0.1", **{TTL: "60"})[0] == 403


def test_the_instance_describes_itself(emulator):
    assert read(emulator, "/latest/meta-data/instance-life-cycle") == (200, "spot")
    assert read(emulator, "/latest/meta-data/instance-type") == (200, "g6.xlarge")
    assert read(emulator, "/latest/meta-data/placement/availability-zone") == (200, "local-a")
    assert read(emulator, "/latest/meta-data/placement/region") == (200, "local")
    assert read(emulator, "/latest/meta-data/local-ipv4") == (200, "127.0.0.1")
    identity = json.loads(read(emulator, "/latest/dynamic/instance-identity/document")[1])
    assert (identity["instanceId"], identity["instanceType"]) == ("i-7", "g6.xlarge")


@pytest.mark.parametrize("path", NOTICES)
def test_there_is_no_notice_until_one_is_announced(emulator, path):
    assert read(emulator, path)[0] == 404
    emulator.announce(120)
    assert read(emulator, path)[0] == 200


def test_a_notice_has_the_form_of_ec2(emulator):
    emulator.announce(120)
    action = json.loads(read(emulator, NOTICES[0])[1])
    assert action["action"] == "terminate"
    assert action["time"] == read(emulator, NOTICES[1])[1]
    assert action["time"].endswith("Z")


def test_a_rebalance_recommendation_is_no_notice(emulator):
    emulator.recommend_rebalance()
    advised = json.loads(read(emulator, NOTICES[2])[1])["noticeTime"]
    assert advised.endswith("Z")
    assert [read(emulator, path)[0] for path in NOTICES[:2]] == [404, 404]
    assert not emulator.announced
    emulator.announce(120)
    assert json.loads(read(emulator, NOTICES[2])[1])["noticeTime"] == advised


@pytest.mark.parametrize("method", ["POST", "DELETE", "PATCH"])
def test_nothing_can_be_changed_over_the_port(emulator, method):
    good = {TOKEN: token(emulator)}
    for path in ("/", *NOTICES):
        assert ask(emulator, method, path, **good)[0] == 501
        assert ask(emulator, "PUT", path, **good, **{TTL: "60"})[0] == 404
    assert not emulator.announced
