"""Alerts over the log, webhooks and Slack: at least once, in order, and never at the cost of the task."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import ModuleType
from typing import Any

import pytest

from include.ledger.alerts import record_alert
from plimsoll.hooks.installation import Installation
from plimsoll.notifiers import channels
from plimsoll.notifiers.capacity_notifier import CapacityNotifier, send_alerts
from tests.support.task_context import DAG_ID, RUN_ID, FakeTaskInstance, context, reconfigured

RUN = {"dag_id": DAG_ID, "run_id": RUN_ID}


class Webhook:
    """A server that takes alerts, or answers what it is told to."""

    def __init__(self) -> None:
        self.taken: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.status = 200
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if outer.status == 200:
                    outer.taken.append(json.loads(body))
                    outer.headers.append(dict(self.headers))
                self.send_response(outer.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/hooks/secret-path"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    found = Webhook()
    yield found
    found.server.shutdown()
    found.server.server_close()


@pytest.fixture
def hooked(place: Installation, webhook: Webhook, monkeypatch: pytest.MonkeyPatch) -> Installation:
    """An installation with one webhook, and one alert that waits."""
    connection = {"conn_type": "http", "host": webhook.url, "extra": {"X-Team": "vision"}}
    monkeypatch.setenv("AIRFLOW_CONN_TEAM_WEBHOOK", json.dumps(connection))
    alarm(place, "train-1-g1")
    return reconfigured(place, notify_connections="team_webhook")


def alarm(place: Installation, key: str, message: str = "spot capacity was taken away", **where: str) -> None:
    record_alert(place.ledger, kind="interruption", key=key, message=message, **{**RUN, **where})


def test_an_alert_goes_out_once_over_each_channel(
    hooked: Installation, webhook: Webhook, caplog: pytest.LogCaptureFixture
) -> None:
    assert send_alerts(hooked) == 2
    assert send_alerts(hooked) == 0
    [told] = webhook.taken
    assert (told["kind"], told["dag_id"], told["run_id"]) == ("interruption", DAG_ID, RUN_ID)
    assert told["text"].endswith("interruption: spot capacity was taken away")
    assert webhook.headers[0]["X-Team"] == "vision"
    [line] = [record for record in caplog.records if "taken away" in record.message]
    assert (line.levelname, f"run={RUN_ID}" in line.message) == ("WARNING", True)


@pytest.mark.parametrize("status", [500, 403, 302])
def test_a_webhook_that_refuses_is_tried_again_by_the_next_sender(
    hooked: Installation, webhook: Webhook, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    webhook.status = status
    alarm(hooked, "train-1-g2")
    assert send_alerts(hooked) == 2  # the log's
    assert f"HTTP status {status}" in caplog.text
    webhook.status = 200
    assert send_alerts(hooked) == 2
    assert [told["id"] for told in webhook.taken] == sorted(told["id"] for told in webhook.taken)


def test_a_webhook_that_is_down_costs_nothing_and_its_address_stays_secret(
    hooked: Installation, webhook: Webhook, caplog: pytest.LogCaptureFixture
) -> None:
    webhook.server.shutdown()
    webhook.server.server_close()
    assert send_alerts(hooked) == 1
    assert "connection team_webhook: ConnectionError" in caplog.text
    assert "secret-path" not in caplog.text


def test_a_connection_that_nobody_made_costs_nothing(place: Installation, caplog: pytest.LogCaptureFixture) -> None:
    alarm(place, "x")
    assert send_alerts(reconfigured(place, notify_connections="nobody_made_this")) == 1
    assert "alerts over nobody_made_this have to wait" in caplog.text


def test_only_the_alerts_of_the_run_where_it_is_named(hooked: Installation, webhook: Webhook) -> None:
    alarm(hooked, "other", run_id="another")
    send_alerts(hooked, **RUN)
    assert [told["run_id"] for told in webhook.taken] == [RUN_ID]
    send_alerts(hooked)
    assert [told["run_id"] for told in webhook.taken] == [RUN_ID, "another"]


def test_a_ledger_that_cannot_be_read_fails_no_task(
    place: Installation, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(place.ledger, "events", lambda **_: 1 / 0)
    assert send_alerts(place) == 0
    assert "have to wait" in caplog.text


def test_as_a_callback_it_sends_the_runs_alerts(
    hooked: Installation, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("plimsoll.notifiers.capacity_notifier.connect", lambda: hooked)
    CapacityNotifier()(context(FakeTaskInstance()))
    assert len(webhook.taken) == 1


def slack(monkeypatch: pytest.MonkeyPatch, said: list[tuple[str, str]], *, error: Exception | None = None) -> None:
    """What Airflow's Slack provider looks like from here."""

    class SlackWebhookHook:
        def __init__(self, *, slack_webhook_conn_id: str, timeout: int) -> None:
            self.connection = slack_webhook_conn_id
            assert 0 < timeout <= 10

        def send(self, *, text: str) -> None:
            if error is not None:
                raise error
            said.append((self.connection, text))

    module = ModuleType("airflow.providers.slack.hooks.slack_webhook")
    module.SlackWebhookHook = SlackWebhookHook  # type: ignore[attr-defined]
    for name in ("airflow.providers.slack", "airflow.providers.slack.hooks"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, module.__name__, module)


@pytest.fixture
def slacking(place: Installation, monkeypatch: pytest.MonkeyPatch) -> Installation:
    monkeypatch.setenv("AIRFLOW_CONN_TEAM_SLACK", json.dumps({"conn_type": channels.SLACK, "password": "T0/B0/x"}))
    alarm(place, "train-1-g1")
    return reconfigured(place, notify_connections="team_slack")


def test_slack_is_told_through_airflows_provider(slacking: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[tuple[str, str]] = []
    slack(monkeypatch, said)
    send_alerts(slacking)
    [(connection, text)] = said
    assert connection == "team_slack"
    assert "spot capacity was taken away" in text


def test_slack_without_the_provider_says_what_to_install(
    slacking: Installation, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "airflow.providers.slack.hooks.slack_webhook", None)
    assert send_alerts(slacking) == 1
    assert "install apache-airflow-providers-slack" in caplog.text


def test_slack_that_refuses_keeps_its_secret(
    slacking: Installation, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    slack(monkeypatch, [], error=RuntimeError("https://hooks.slack.com/T0/B0/x says no"))
    assert send_alerts(slacking) == 1
    assert "connection team_slack: RuntimeError" in caplog.text
    assert "B0/x" not in caplog.text
