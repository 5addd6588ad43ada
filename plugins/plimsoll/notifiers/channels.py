"""The ways an alert goes out: the task's log, webhooks, Slack. Addresses and secrets are in connections alone."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

from include.config.settings import Settings
from include.ledger.alerts import Alert

_log = logging.getLogger(__name__)
LOG = "log"
SLACK = "slackwebhook"
_TIMEOUT_S = 5
# Redirects are not followed: the authentication would go with them.
_TAKEN = range(200, 300)

Send = Callable[[Alert], None]


class ChannelError(Exception):
    """A channel cannot be used as it is set up; the message names the connection and no secret."""


def channels(settings: Settings) -> Iterator[tuple[str, Send]]:
    """Name and way of each channel of this installation, the log first.

    A connection is read when the first alert goes over it, so that an installation without alerts asks for none.
    """
    yield LOG, write_to_log
    for connection in dict.fromkeys(settings.notify_connections.split(",")):
        if connection:
            yield connection, sender(connection)


def sender(connection_id: str) -> Send:
    """The way over one Airflow connection."""

    def send(alert: Alert) -> None:
        from airflow.sdk import BaseHook

        kind = BaseHook.get_connection(connection_id).conn_type
        (post_to_slack if kind == SLACK else post_to_webhook)(alert, connection_id)

    return send


def write_to_log(alert: Alert) -> None:
    """One line in the log of the task that sends."""
    _log.warning("%s", text_of(alert))


def text_of(alert: Alert) -> str:
    """The alert as one line."""
    return f"run={alert.run_id or '-'} dag={alert.dag_id or '-'} {alert.kind}: {alert.message}"


def post_to_webhook(alert: Alert, connection_id: str) -> None:
    """POST the alert as JSON to an HTTP connection, with its authentication and headers.

    Raises:
        ChannelError: The address does not take it: an answer other than 2xx, or none in time.
    """
    # Needed by installations with a webhook alone.
    import requests
    from airflow.providers.http.hooks.http import HttpHook

    hook = HttpHook(method="POST", http_conn_id=connection_id, tcp_keep_alive=False)
    session = hook.get_conn()
    try:
        # Neither the hook's own request nor the error's text: both write the address, which may be a secret.
        answer = session.post(
            hook.base_url, json=payload_of(alert), timeout=_TIMEOUT_S, allow_redirects=False, stream=True
        )
    except requests.RequestException as error:
        raise ChannelError(f"connection {connection_id}: {type(error).__name__}") from None
    finally:
        session.close()
    if answer.status_code not in _TAKEN:
        raise ChannelError(f"connection {connection_id}: HTTP status {answer.status_code}")


def payload_of(alert: Alert) -> dict[str, Any]:
    """What a webhook gets: ``text`` for chat programs, the parts for programs; ``id`` tells a repetition."""
    return {
        "text": text_of(alert),
        "id": alert.id,
        "kind": alert.kind,
        "dag_id": alert.dag_id,
        "run_id": alert.run_id,
        "at": alert.at,
        "message": alert.message,
    }


def post_to_slack(alert: Alert, connection_id: str) -> None:
    """Send the alert's line through the webhook hook of Airflow's Slack provider.

    Raises:
        ChannelError: The provider is not installed, or Slack does not take it.
    """
    try:
        from airflow.providers.slack.hooks.slack_webhook import SlackWebhookHook
    except ImportError:
        raise ChannelError(
            f"connection {connection_id} is of type {SLACK}: install apache-airflow-providers-slack"
        ) from None
    try:
        SlackWebhookHook(slack_webhook_conn_id=connection_id, timeout=_TIMEOUT_S).send(text=text_of(alert))
    except Exception as error:  # noqa: BLE001 - of many types, and their texts may hold the address
        raise ChannelError(f"connection {connection_id}: {type(error).__name__}") from None
