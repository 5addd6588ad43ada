"""Sends the alerts of the ledger that did not go out yet. Called by every operator that moved capacity."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

from airflow.sdk import BaseNotifier

from include.core.clock import SystemClock
from include.ledger.alerts import mark_sent, unsent_alerts
from plimsoll.hooks.installation import Installation, connect
from plimsoll.notifiers.channels import Send, channels

_log = logging.getLogger(__name__)
# Who was not reached within a day does not want to hear of it any more.
_MAX_AGE = timedelta(days=1)
# A channel that takes its whole time for each alert must not hold up a task.
_MOST_AT_ONCE = 10


def send_alerts(installation: Installation, *, dag_id: str | None = None, run_id: str | None = None) -> int:
    """Send what is unsent over every channel: at least once each, a failure left to the next sender.

    Args:
        installation: Clients of this process.
        dag_id: Only alerts of this DAG.
        run_id: Only alerts of this run.

    Returns:
        How many went out, over all channels. Never raises: an alert is no reason for a task to fail.
    """
    sent = 0
    for name, send in channels(installation.settings):
        try:
            sent += _send_over(name, send, installation, dag_id=dag_id, run_id=run_id)
        except Exception as error:  # noqa: BLE001 - see above
            _log.warning("alerts over %s have to wait: %s", name, error)
    return sent


def _send_over(name: str, send: Send, installation: Installation, *, dag_id: str | None, run_id: str | None) -> int:
    since = SystemClock().now() - _MAX_AGE
    unsent = unsent_alerts(installation.ledger, channel=name, since=since, dag_id=dag_id, run_id=run_id)
    for alert in unsent[:_MOST_AT_ONCE]:
        send(alert)
        mark_sent(installation.ledger, alert, channel=name)
    return min(len(unsent), _MOST_AT_ONCE)


class CapacityNotifier(BaseNotifier):
    """The same as a callback of Airflow: a task that was ended from outside tells what it had recorded."""

    def notify(self, context: Any) -> None:
        """Send what is unsent of the run."""
        ti = context["ti"]
        send_alerts(connect(), dag_id=ti.dag_id, run_id=ti.run_id)
