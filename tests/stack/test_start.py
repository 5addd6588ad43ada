"""When a start begins, uses what runs, or refuses."""

import threading
from datetime import UTC, datetime

import pytest

from stack import health, record, start
from stack.errors import StackError
from stack.installation import StackSettings

PORTS = {"airflow": 8123, "mlflow": 5123, "serving": 8623}


@pytest.fixture
def running(installation, sleeper):
    """``running(healthy)``: a record of a stack whose supervisor lives."""

    def write(healthy=True):
        _, supervisor = sleeper()
        state = record.StackRecord(supervisor=supervisor, ports=PORTS, started_at=datetime.now(UTC), healthy=healthy)
        record.write(installation, state)

    return write


def begin(installation, said=None):
    return start.start(StackSettings(var=installation.var), (said if said is not None else []).append)


def test_a_healthy_stack_is_used_again_with_one_line(installation, running, monkeypatch):
    running()
    monkeypatch.setattr(health, "unhealthy", lambda ports, since: {})
    said = []
    stack = begin(installation, said)
    assert stack.reused
    assert stack.ports.airflow == 8123
    assert len(said) == 1
    assert "already running since" in said[0]


def test_an_unhealthy_stack_is_refused_with_the_reason(installation, running, monkeypatch):
    running()
    monkeypatch.setattr(health, "unhealthy", lambda ports, since: {"triggerer": "unhealthy"})
    with pytest.raises(StackError, match=r"not healthy \(triggerer: unhealthy\): `make stop`"):
        begin(installation)


def test_a_start_that_was_never_finished_is_refused(installation, running):
    running(healthy=False)
    with pytest.raises(StackError, match="was never finished"):
        begin(installation)


def test_a_stop_that_was_not_finished_is_refused(installation, running, monkeypatch):
    running()
    record.write(installation, record.read(installation).model_copy(update={"stopping": True}))
    monkeypatch.setattr(health, "unhealthy", lambda ports, since: {})
    with pytest.raises(StackError, match=r"stop: was begun and not finished\): `make stop`"):
        begin(installation)


def test_left_overs_of_a_dead_supervisor_are_refused(installation, sleeper):
    dead, supervisor = sleeper()
    dead.kill()
    dead.wait()
    _, orphan = sleeper()
    state = record.StackRecord(supervisor=supervisor, processes=(orphan,), ports=PORTS, started_at=datetime.now(UTC))
    record.write(installation, state)
    with pytest.raises(StackError, match="left over: `make stop`"):
        begin(installation)


def test_two_starts_at_once_do_not_collide(installation):
    with start.only_one_start(installation), pytest.raises(StackError, match="Another make run or make stop"):
        begin(installation)


def test_the_lock_is_free_again_after_a_failure(installation):
    def fail():
        with pytest.raises(ValueError, match="x"), start.only_one_start(installation):
            raise ValueError("x")

    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    with start.only_one_start(installation):
        pass
