"""A function in a process of its own: its answer, its refusal, and every way in which it can misbehave."""

from __future__ import annotations

import time

import psutil
import pytest

from include.core.errors import UserError
from include.sizing.sandbox import SandboxFailedError, SandboxLimits, run_limited
from tests.support.waiting import eventually

ROOMY = SandboxLimits(seconds=60, memory_bytes=2**30)


def run(tmp_path, name, order=None, limits=ROOMY):
    return run_limited(
        f"tests.support.bad_factories:{name}", order or {}, limits=limits, folder=tmp_path, where="model.factory x"
    )


def test_an_answer_comes_back_and_nothing_is_left(tmp_path):
    assert run(tmp_path, "doubles", {"number": 21}) == {"twice": 42}
    assert list(tmp_path.iterdir()) == []


def test_a_refusal_comes_back_as_it_was(tmp_path):
    with pytest.raises(UserError, match=r"the factory refuses . where: model.factory"):
        run(tmp_path, "refuses")


def test_a_mistake_of_ours_is_told_with_its_place(tmp_path):
    with pytest.raises(SandboxFailedError, match=r"no such layer"):
        run(tmp_path, "raises")


def test_what_never_returns_is_ended(tmp_path):
    started = time.monotonic()
    with pytest.raises(UserError, match=r"takes too long . where: model.factory x . found: no end after 1 s"):
        run(tmp_path, "never_returns", limits=SandboxLimits(seconds=0.8, memory_bytes=2**30))
    assert time.monotonic() - started < 10


def test_what_takes_memory_without_end_is_ended(tmp_path):
    with pytest.raises(UserError, match=r"too much memory.*GiB resident . allowed: 0.2 GiB"):
        run(tmp_path, "takes_memory", limits=SandboxLimits(seconds=60, memory_bytes=2**28))


def test_death_by_a_signal_is_told(tmp_path):
    with pytest.raises(SandboxFailedError, match=r"no answer: signal 6"):
        run(tmp_path, "ends_by_signal")


def test_what_the_function_started_ends_with_it(tmp_path):
    file = tmp_path / "child"
    with pytest.raises(UserError):
        run(tmp_path, "leaves_a_child", {"file": str(file)}, SandboxLimits(seconds=1.0, memory_bytes=2**30))
    child = int(file.read_text())
    # A killed process ends when it is next given the CPU, which on a busy machine takes a moment.
    eventually(lambda: not runs(child), what="the child has ended")


def runs(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
