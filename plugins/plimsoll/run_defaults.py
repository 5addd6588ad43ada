"""Defaults of every Plimsoll task: owner, retries by kind of error, documentation."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk.definitions.retry_policy import ExceptionRetryPolicy, RetryAction, RetryRule

from include.core.errors import GroupClosedError, StoreError, UserError
from plimsoll.notifiers.capacity_notifier import CapacityNotifier

RETRY_POLICY = ExceptionRetryPolicy(
    rules=[
        RetryRule(exception=UserError, action=RetryAction.FAIL, reason="a person must change something"),
        RetryRule(exception=GroupClosedError, action=RetryAction.FAIL, reason="the capacity was released"),
        RetryRule(exception=StoreError, action=RetryAction.RETRY, retry_delay=timedelta(seconds=2)),
    ]
)


def default_args(owner: str) -> dict[str, Any]:
    """``default_args`` of a Plimsoll DAG."""
    return {
        "owner": owner,
        "retries": 2,
        "retry_delay": timedelta(seconds=5),
        "retry_policy": RETRY_POLICY,
        "execution_timeout": timedelta(minutes=15),
        # What a task recorded before it was ended from outside, for example by a limit of Airflow's.
        "on_failure_callback": CapacityNotifier(),
    }
