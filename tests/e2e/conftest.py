"""Runs that several tests look at: made once, since each takes minutes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from stack.last_run import LastRun
from tests.support.real_stack import RealStack


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeRun:
    """What ``make run`` gave.

    Attributes:
        summary: The summary it returned.
        printed: What it printed.
        written: ``var/last_run.json`` as it wrote it.
    """

    summary: LastRun
    printed: str
    written: dict[str, Any]


def made_run(stack: RealStack, workload: str, *, drill: bool) -> MadeRun:
    summary, printed = stack.make_run(workload, drill=drill)
    written = json.loads(stack.installation.last_run.read_text())
    return MadeRun(summary=summary, printed=printed, written=written)


@pytest.fixture(scope="session")
def digits_run(stack: RealStack) -> MadeRun:
    """The run of a fresh clone: digits, with one interruption."""
    return made_run(stack, "digits", drill=True)
