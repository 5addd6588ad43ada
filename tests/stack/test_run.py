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


@pytest.fixture
def interrupted(execute, installation, sleeper):
    """``interrupted(begun=..., ended=..., **record)``: what Control-C says then."""

    def act(*, begun=False, ended="", **changes):
        _, supervisor = sleeper()
        ports = {"airflow": 8123, "mlflow": 5000, "serving": 8600}
        state = record.StackRecord(supervisor=supervisor, ports=ports, started_at=datetime.now(UTC), **changes)
        record.write(installation, state)
        order = run.RunOrder(workload="digits", once=False, drill=False)
        command = run.Command(order, StackSettings(var=installation.var), Console(file=StringIO()))
        command._run_begun, command._run_state = begun, ended
        return command.interrupted()

    return act


def test_control_c_says_what_goes_on_and_how_to_end_it(interrupted):
    text = interrupted(healthy=True, begun=True)
    assert "The stack and the run go on: follow it at http://127.0.0.1:8123, end everything with `make stop`" in text


def test_control_c_in_the_middle_of_the_start_does_not_speak_of_a_run(interrupted):
    text = interrupted(healthy=False)
    assert "half started, and no run was begun. `make stop` ends it, then `make run` starts again" in text


def test_control_c_between_the_start_and_the_run(interrupted):
    assert "no run was begun: `make run` uses it" in interrupted(healthy=True)


def test_control_c_after_the_run(interrupted):
    assert "The run has ended as failed, its summary is not written" in interrupted(
        healthy=True, begun=True, ended="failed"
    )


def test_control_c_while_the_stack_is_stopped_elsewhere(interrupted):
    assert "while the stack was ending" in interrupted(healthy=True, begun=True, stopping=True)


def test_control_c_before_anything_was_started(execute):
    status, text, _ = execute(KeyboardInterrupt())
    assert status == 130
    assert "nothing is left, `make run` starts again" in text


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


@pytest.fixture
def ready(installation, server, sleeper, monkeypatch):
    """A command whose stack, DAG and run are pretended; Airflow is the fake server."""
    from include.config.settings import Settings
    from stack.airflow_api import AirflowApi
    from stack.ports import Ports

    ports = Ports(airflow=server.port, mlflow=1, serving=1)
    settings = Settings(store=f"file://{installation.var}/store", work_root=installation.var / "work")
    api = AirflowApi(url=server.url, user="admin", password="x")
    stack = SimpleNamespace(
        installation=installation,
        ports=ports,
        settings=settings,
        started_at=datetime.now(UTC),
        reused=False,
        api=lambda: api,
    )
    _, supervisor = sleeper()
    state = record.StackRecord(
        supervisor=supervisor,
        ports={"airflow": server.port, "mlflow": 1, "serving": 1},
        started_at=stack.started_at,
        healthy=True,
    )
    record.write(installation, state)
    monkeypatch.setattr(run.start, "start", lambda *a: stack)
    for name in ("wait_for_dag", "wait_for_files", "refuse_broken_code"):
        monkeypatch.setattr(run.dag_ready, name, lambda *a, **k: None)
    monkeypatch.setattr(run.pools, "ensure", lambda api: None)
    answers = server.answers
    base = "/api/v2/dags/digits/dagRuns"
    answers[("GET", f"{base}?state=queued&state=running&limit=100&offset=0")] = (
        200,
        {"dag_runs": [], "total_entries": 0},
    )
    answers[("POST", base)] = (200, {"dag_run_id": "r"})
    answers[("GET", f"{base}/r")] = (200, {"state": "failed"})
    answers[("GET", f"{base}/r/taskInstances?limit=100&offset=0")] = (200, {"task_instances": [], "total_entries": 0})
    for name in ("digits", "lease_reaper", "storage_lifecycle"):
        answers[("GET", f"/api/v2/dags/{name}")] = (200, {"dag_id": name})
        answers[("PATCH", f"/api/v2/dags/{name}")] = (200, {})
    return installation, server


def unpaused(server):
    return [path.rpartition("/")[2] for method, path, *_ in server.requests if method == "PATCH"]


@pytest.mark.parametrize(("once", "on"), [(False, ["digits", "lease_reaper", "storage_lifecycle"]), (True, ["digits"])])
def test_a_run_from_trigger_to_summary(ready, monkeypatch, once, on):
    installation, server = ready
    monkeypatch.setattr(run.stop, "stop", lambda settings, say: 0)
    console = Console(file=StringIO(), width=200)
    order = run.RunOrder(workload="digits", once=once, drill=True)
    assert run.execute(order, StackSettings(var=installation.var), console) == 1
    triggered = next(entry for entry in server.requests if entry[:2] == ("POST", "/api/v2/dags/digits/dagRuns"))
    assert triggered[2]["conf"] == {"interruption_drill": True}
    assert "the run ended as failed" in console.file.getvalue()
    assert '"state": "failed"' in installation.last_run.read_text()
    # The guards begin to run at once, so they wait for the person's own run.
    assert unpaused(server) == on


def test_a_later_set_up_does_not_change_the_figure_of_this_command(ready, monkeypatch):
    installation, _ = ready
    figures = [147.0, 0.0]
    monkeypatch.setattr(run, "_setup_seconds", lambda repo: figures.pop(0))
    order = run.RunOrder(workload="digits", once=False, drill=False)
    run.execute(order, StackSettings(var=installation.var), Console(file=StringIO(), width=200))
    assert '"setup_s": 147.0' in installation.last_run.read_text()


def test_a_run_whose_stack_was_stopped_ends_with_one_line(ready):
    installation, server = ready
    server.answers[("GET", "/api/v2/dags/digits/dagRuns/r")] = (200, {"state": "running"})
    record.write(installation, record.read(installation).model_copy(update={"stopping": True}))
    console = Console(file=StringIO(), width=200)
    order = run.RunOrder(workload="digits", once=False, drill=False)
    assert run.execute(order, StackSettings(var=installation.var), console) == 1
    assert "make run: The stack was stopped while the run was followed" in console.file.getvalue()
