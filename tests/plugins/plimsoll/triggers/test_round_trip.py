"""Every trigger survives being stored and rebuilt, under the one import path that the triggerer knows."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import pytest
from airflow.triggers.base import BaseTrigger

import plimsoll.triggers
from plimsoll.triggers.job_trigger import JobTrigger
from plimsoll.triggers.lease_ready_trigger import LeaseReadyTrigger

TRIGGERS = [
    JobTrigger(base="runs/w/r/jobs/train-1", lease_id="train-1-g1", lost_after_s=9.0, nonce="n"),
    LeaseReadyTrigger(lease_id="train-1-g1"),
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
    assert build(path, arguments).serialize() == (path, arguments)


@pytest.mark.parametrize(("path", "arguments"), STORED)
def test_stored_rows_still_build(path: str, arguments: dict) -> None:
    assert build(path, arguments).serialize() == (path, arguments)


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
