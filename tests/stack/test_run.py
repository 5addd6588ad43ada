"""The command: its options, its exit status, and what it stops at the end."""

import fcntl
from datetime import UTC, datetime
from io import StringIO
from types import SimpleNamespace

import pytest
from rich.console import Console

from stack import record, run
from stack.errors import StackError
from stack.installation import StackSettings


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], ("digits", False, True)),
        (["--workload", "", "--drill", ""], ("digits", False, True)),
        (["--workload", "titanic", "--once"], ("titanic", True, False)),
        (["--workload", "titanic", "--drill", "1"], ("titanic", False, True)),
        (["--drill", "0"], ("digits", False, False)),
    ],
)
def test_the_default_run_has_the_drill_and_a_persons_own_has_not(arguments, expected):
    order = run.parse(arguments)
    assert (order.workload, order.once, order.drill) == expected


@pytest.fixture
def execute(installation, monkeypatch):
    """``execute(outcome, once=...)``: the command with a run that ends so; returns status, output and stops."""
    stops = []
    monkeypatch.setattr(run.stop, "stop", lambda settings, say: stops.append(settings.var))

    def act(outcome, *, once=False):
        def pretended(self):
            if isinstance(outcome, BaseException):
                raise outcome
            return SimpleNamespace(success=outcome)

        monkeypatch.setattr(run.Command, "run", pretended)
        console = Console(file=StringIO(), width=200)
        order = run.RunOrder(workload="digits", once=once, drill=False)
        status = run.execute(order, StackSettings(var=installation.var), console)
        return status, console.file.getvalue(), stops

    return act


@pytest.mark.parametrize(("success", "status"), [(True, 0), (False, 1)])
def test_the_exit_status_is_that_of_the_summary(execute, success, status):
    assert execute(success)[0] == status


def test_an_error_is_one_line_and_status_one(execute):
    status, text, _ = execute(StackError("no port"))
    assert status == 1
    assert text.strip() == "make run: no port"


@pytest.mark.parametrize("outcome", [True, False, StackError("x"), KeyboardInterrupt()])
def test_once_stops_everything_however_it_ended(execute, installation, outcome):
    _, _, stops = execute(outcome, once=True)
    assert stops == [installation.var]


def test_without_once_nothing_is_stopped(execute):
    assert execute(True)[2] == []


def test_a_stop_that_fails_makes_a_good_run_fail(execute, monkeypatch):
    def broken(settings, say):
        raise StackError("processes 7 cannot be ended")

    execute(True)
    monkeypatch.setattr(run.stop, "stop", broken)
    status, text, _ = execute(True, once=True)
    assert status == 1
    assert "processes 7 cannot be ended" in text


def test_a_stack_that_another_run_follows_is_left_running(execute, installation):
    with (installation.run / "users.lock").open("a") as other:
        fcntl.flock(other, fcntl.LOCK_SH)
        status, text, stops = execute(True, once=True)
    assert (status, stops) == (0, [])
    assert "Another `make run` follows a run on this stack" in text


def test_control_c_says_what_goes_on_and_how_to_end_it(execute, installation, sleeper):
    _, supervisor = sleeper()
    ports = {"airflow": 8123, "mlflow": 5000, "serving": 8600}
    record.write(installation, record.StackRecord(supervisor=supervisor, ports=ports, started_at=datetime.now(UTC)))
    status, text, _ = execute(KeyboardInterrupt())
    assert status == 130
    assert "The stack and the run go on: follow it at http://127.0.0.1:8123, end everything with `make stop`" in text


def test_control_c_before_the_stack_was_up(execute):
    status, text, _ = execute(KeyboardInterrupt())
    assert status == 130
    assert "before the stack was up" in text


def test_a_mistake_in_the_workload_is_told_before_anything_starts(installation, monkeypatch, tmp_path):
    monkeypatch.setenv("PLIMSOLL_WORKLOADS", str(tmp_path))
    monkeypatch.setattr(run.start, "start", lambda *a: pytest.fail("started"))
    console = Console(file=StringIO(), width=200)
    order = run.RunOrder(workload="digits", once=False, drill=False)
    assert run.execute(order, StackSettings(var=installation.var), console) == 1
    assert "There is no workload 'digits'" in console.file.getvalue()


def test_an_old_set_up_is_not_counted_for_this_command(tmp_path):
    import os

    assert run._setup_seconds(tmp_path) is None
    (tmp_path / "var").mkdir()
    path = tmp_path / "var/setup_seconds"
    path.write_text("12.5")
    assert run._setup_seconds(tmp_path) == 12.5
    os.utime(path, (0, 0))
    assert run._setup_seconds(tmp_path) is None
