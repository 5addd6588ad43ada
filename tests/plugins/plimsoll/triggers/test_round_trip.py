"""Every trigger survives being stored and rebuilt, under the one import path that the triggerer knows."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil

import pytest
from airflow.triggers.base import BaseTrigger

import plimsoll.triggers
from plimsoll.triggers.capacity_trigger import CapacityTrigger
from plimsoll.triggers.job_trigger import JobTrigger
from plimsoll.triggers.lease_ready_trigger import LeaseReadyTrigger

TRIGGERS = [
    CapacityTrigger(retry_after_s=30.0, until=1.8e9, reason="no spot in three zones"),
    JobTrigger(
        base="runs/w/r/jobs/train-1",
        lease_id="train-1-g1",
        lost_after_s=9.0,
        nonce="n",
        boot_until=1.8e9,
        boot_s=900.0,
        instances={"region": "us-east-1", "ids": ["i-0123456789abcdef0"]},
        budget={"limit_usd": "10", "spent_usd": "1.5", "warned": True},
        leave_by=1.8e9,
        look_again_s=300.0,
        rebalance_seen="2026-11-30T12:00:00Z",
        printed=7,
    ),
    LeaseReadyTrigger(lease_id="train-1-g1", until=1.8e9, boot_s=900.0, instances={"region": "r", "ids": ["i-0"]}),
]
# Triggers are stored in the database of a running installation: an old row must still build.
STORED = [
    ("plimsoll.triggers.job_trigger.JobTrigger", {"base": "b", "lease_id": "l", "lost_after_s": 8.0, "nonce": ""}),
    ("plimsoll.triggers.lease_ready_trigger.LeaseReadyTrigger", {"lease_id": "l"}),
]


def build(path: str, arguments: dict) -> BaseTrigger:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)(**arguments)


@pytest.mark.parametrize("trigger", TRIGGERS, ids=lambda trigger: type(trigger).__name__)
def test_round_trip(trigger: BaseTrigger) -> None:
    path, arguments = trigger.serialize()
    stored = json.loads(json.dumps(arguments))
    assert build(path, stored).serialize() == (path, arguments)


@pytest.mark.parametrize(("path", "arguments"), STORED)
def test_stored_rows_still_build(path: str, arguments: dict) -> None:
    again, stored = build(path, arguments).serialize()
    assert again == path
    assert stored.items() >= arguments.items()


def test_every_trigger_is_in_the_list() -> None:
    found = set()
    for info in pkgutil.iter_modules(plimsoll.triggers.__path__):
        module = importlib.import_module(f"plimsoll.triggers.{info.name}")
        found |= {
            cls
            for _, cls in inspect.getmembers(module, inspect.isclass)
            if issubclass(cls, BaseTrigger) and cls.__module__ == module.__name__
        }
    assert found == {type(trigger) for trigger in TRIGGERS}
