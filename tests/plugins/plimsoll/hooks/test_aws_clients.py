"""Clients of the EC2 engine: whose keys they carry, how often they try, where they ask."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from plimsoll.hooks import aws_clients
from plimsoll.hooks.aws_clients import Credentials, EngineClients, connection_credentials


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_EC2"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "from-environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-of-environment")
    monkeypatch.setattr(aws_clients, "connection_credentials", Credentials)


def key_of(client: Any) -> str:
    return client._request_signer._credentials.access_key


def test_a_launch_is_hardly_ever_repeated_by_the_sdk():
    clients = EngineClients("eu-north-1")
    launching, reading = clients.launching(), clients.reading()
    assert launching.meta.config.retries["total_max_attempts"] == 2
    assert launching.meta.config.read_timeout <= 30
    assert reading.meta.config.retries["total_max_attempts"] == 5
    assert launching.meta.region_name == "eu-north-1"
    assert key_of(launching) == "from-environment"


def test_each_client_is_made_once_for_the_process():
    assert EngineClients("eu-north-1").reading() is EngineClients("eu-north-1").reading()


def test_keys_of_the_connection_stand_above_the_environment(monkeypatch: pytest.MonkeyPatch):
    keys = Credentials(key_id="of-connection", secret="s", token="t")
    monkeypatch.setattr(aws_clients, "connection_credentials", lambda: keys)
    assert key_of(EngineClients("eu-north-1").launching()) == "of-connection"


def test_the_connection_is_read_for_its_keys(monkeypatch: pytest.MonkeyPatch):
    found = SimpleNamespace(login="id", password="pw", extra_dejson={"aws_session_token": "token"})
    monkeypatch.setattr("airflow.sdk.BaseHook.get_connection", lambda name: {"plimsoll_aws": found}[name])
    assert connection_credentials() == Credentials(key_id="id", secret="pw", token="token")
    assert "pw" not in repr(connection_credentials())


def test_without_a_connection_the_environment_does(monkeypatch: pytest.MonkeyPatch):
    def absent(name: str) -> None:
        raise KeyError(name)

    monkeypatch.setattr("airflow.sdk.BaseHook.get_connection", absent)
    assert connection_credentials() == Credentials()


def test_quotas_are_asked_where_ec2_is_stood_in_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL_EC2", "http://127.0.0.1:5999")
    clients = EngineClients("us-west-2")
    assert clients.launching().meta.endpoint_url == "http://127.0.0.1:5999"
    assert clients.quotas().meta.endpoint_url == "http://127.0.0.1:5999"
