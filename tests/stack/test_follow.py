"""Following a run: what is shown, and when it ends."""

from datetime import UTC, datetime
from io import StringIO

import pytest
from rich.console import Console

from include.core.store import ObjectStore
from stack import follow
from stack.airflow_api import AirflowApi
from stack.displays import LiveDisplay, PlainDisplay, display_on, task_table
from stack.errors import StackError
from stack.follow import TaskLine, task_lines, training_line

NOW = datetime(2026, 1, 1, 12, 0, 10, tzinfo=UTC)
PREFIX = "runs/digits/r"


def task(name, state, *, start=None, end=None, index=-1, rendered=None, attempt=1):
    stamp = "2026-01-01T12:00:0{}+00:00"
    return {
        "task_id": name,
        "state": state,
        "start_date": start if start is None else stamp.format(start),
        "end_date": end if end is None else stamp.format(end),
        "map_index": index,
        "rendered_map_index": rendered,
        "try_number": attempt,
    }


@pytest.fixture
def store(tmp_path):
    return ObjectStore(f"file://{tmp_path}/store")


def test_lines_are_in_the_order_of_the_start():
    found = task_lines(
        [
            task("later", "running", start=5),
            task("not_yet", None),
            task("compress", "success", start=1, end=4, index=1, rendered="static-int8"),
            task("compress", "success", start=1, end=2, index=0),
        ],
        now=NOW,
    )
    assert [line.name for line in found] == ["compress [0]", "compress [static-int8]", "later", "not_yet"]
    assert [line.seconds for line in found] == [1.0, 3.0, 5.0, None]
    assert found[-1].state == "waiting"


def beat(store, number, **changes):
    progress = {"step": 120, "total": 300, "epoch": 4, "epochs": 10, "loss": 0.25, "samples_per_s": 1234.5}
    value = {"sequence": 1, "at": "t", "state": "running", "progress": progress, **changes}
    store.put_json(f"{PREFIX}/jobs/train-{number}/heartbeat.json", value)


def test_the_training_line_is_that_of_the_newest_attempt(store):
    assert training_line(store, PREFIX) == ""
    beat(store, 9, progress={"step": 1})
    beat(store, 10)
    expected = "training, attempt 10, epoch 4/10, step 120/300, loss 0.2500, 1,234 samples/s"
    assert training_line(store, PREFIX) == expected
    beat(store, 11, progress={})
    assert training_line(store, PREFIX) == ""
    beat(store, 11, progress={"step": 2})
    assert training_line(store, PREFIX) == "training, attempt 11, step 2"
    beat(store, 11, state="exited")
    assert training_line(store, PREFIX) == ""


class Recorder:
    def __init__(self):
        self.shown = []

    def show(self, tasks, training):
        self.shown.append(([(task.name, task.state) for task in tasks], training))


def test_it_follows_to_the_end_and_bridges_a_restart_of_airflow(server, store):
    run = "/api/v2/dags/digits/dagRuns/r"
    server.answers[("GET", run)] = [(200, {"state": "running"}), (502, {}), (200, {"state": "failed"})]
    tasks = {"task_instances": [task("a", "running", start=1)], "total_entries": 1}
    server.answers[("GET", f"{run}/taskInstances?limit=100&offset=0")] = (200, tasks)
    api = AirflowApi(url=server.url, user="admin", password="x")
    recorder, pauses = Recorder(), []
    state = follow.follow(
        api=api,
        store=store,
        dag_id="digits",
        run_id="r",
        prefix=PREFIX,
        display=recorder,
        stack_goes_on=lambda: True,
        pause=pauses.append,
    )
    assert state == "failed"
    assert recorder.shown == [([("a", "running")], "")] * 2
    assert len(pauses) == 2


def test_an_airflow_that_has_gone_for_good_ends_it(server, store, monkeypatch):
    monkeypatch.setattr(follow, "_SILENCE_S", 0.0)
    api = AirflowApi(url=server.url, user="admin", password="x")
    with pytest.raises(StackError, match=r"does not answer any more .*make stop"):
        follow_until_it_ends(api, store, goes_on=True)


def follow_until_it_ends(api, store, *, goes_on):
    follow.follow(
        api=api,
        store=store,
        dag_id="digits",
        run_id="r",
        prefix=PREFIX,
        display=Recorder(),
        stack_goes_on=lambda: goes_on,
        pause=lambda seconds: pytest.fail("waited"),
    )


@pytest.mark.parametrize("answer", [(200, {"state": "running"}), (502, {})])
def test_a_stop_elsewhere_is_told_at_once_whether_airflow_still_answers_or_not(server, store, answer):
    run = "/api/v2/dags/digits/dagRuns/r"
    server.answers[("GET", run)] = answer
    server.answers[("GET", f"{run}/taskInstances?limit=100&offset=0")] = (200, {"task_instances": []})
    api = AirflowApi(url=server.url, user="admin", password="x")
    with pytest.raises(StackError, match="The stack was stopped while the run was followed"):
        follow_until_it_ends(api, store, goes_on=False)


def line(state, *, attempt=1, seconds=1.25):
    return TaskLine(key=("train", -1), name="train", state=state, seconds=seconds, try_number=attempt)


def test_without_a_terminal_each_change_is_one_line():
    console = Console(file=StringIO(), width=60)
    display = PlainDisplay(console)
    for state, attempt in (
        ("waiting", 1),
        ("queued", 1),
        ("running", 1),
        ("running", 1),
        ("running", 2),
        ("success", 2),
    ):
        display.show([line(state, attempt=attempt)], "step 1")
    lines = [" ".join(text.partition("]")[2].split()) for text in console.file.getvalue().splitlines()]
    assert lines == ["step 1", "train running", "train running, try 2", "train success, 1.2 s, try 2"]


def test_the_console_decides_on_the_display():
    with display_on(Console(file=StringIO()), "x") as display:
        assert isinstance(display, PlainDisplay)
    terminal = Console(file=StringIO(), force_terminal=True)
    with display_on(terminal, "the run") as display:
        assert isinstance(display, LiveDisplay)
        display.show([line("deferred")], "step 1 of 2")
    shown = terminal.file.getvalue()
    assert "step 1 of 2" in shown
    assert "the run" in shown


def test_the_table_shows_state_seconds_and_further_tries():
    console = Console(file=StringIO(), width=100)
    console.print(task_table([line("running", attempt=3), line("waiting", seconds=None)], "t"))
    rows = [text.split() for text in console.file.getvalue().splitlines()]
    assert ["train", "running", "1.2", "3"] in rows
    assert ["train", "waiting"] in rows
