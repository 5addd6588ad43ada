"""Stopping ends exactly what was recorded, and what hangs in the supervisor's session."""

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from include.core.contracts.lease import ReleaseReport
from include.core.process import is_alive
from stack import record, stop
from stack.errors import StackError
from stack.installation import StackSettings
from stack.record import StackRecord

PORTS = {"airflow": 8080, "mlflow": 5000, "serving": 8600}


def recorded(supervisor, *processes):
    return StackRecord(supervisor=supervisor, processes=processes, ports=PORTS, started_at=datetime.now(UTC))


def test_only_recorded_processes_are_killed(sleeper):
    ours, ours_recorded = sleeper(ignore_term=True)
    _other, other_recorded = sleeper(ignore_term=True)
    assert stop.kill([ours_recorded]) == 1
    assert ours.wait(5) == -signal.SIGKILL
    assert is_alive(other_recorded.identity)


def test_a_pid_that_belongs_to_a_later_process_is_left_alone(sleeper):
    other, now = sleeper()
    earlier = now.model_copy(update={"start_ticks": now.start_ticks - 1})
    after_boot = now.model_copy(update={"boot_id": "another boot"})
    assert stop.kill([earlier, after_boot]) == 0
    assert other.poll() is None


def test_processes_that_have_gone_are_no_error(sleeper):
    gone, gone_recorded = sleeper()
    gone.kill()
    gone.wait()
    assert stop.kill([gone_recorded]) == 0


# A supervisor with a child that ignores SIGTERM; prints its pid, leaves on SIGTERM without it.
SUPERVISOR = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(300)"
child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(300)
"""


@pytest.fixture
def supervised(installation):
    """A running stand-in for the supervisor, in a session of its own, and its record."""
    process = subprocess.Popen(
        [sys.executable, "-c", SUPERVISOR],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        cwd=installation.run,
    )
    child = int(process.stdout.readline())
    yield process, child, record.new(supervisor_pid=process.pid, ports=PORTS, started_at=datetime.now(UTC))
    for pid in (child, process.pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.wait()
    process.stdout.close()


@pytest.fixture
def settings(installation, monkeypatch):
    """Settings that point to the installation; agents live in an empty store."""
    monkeypatch.setenv("PLIMSOLL_STORE", f"file://{installation.var}/store")
    monkeypatch.setenv("PLIMSOLL_WORK_ROOT", str(installation.var / "work"))
    return StackSettings(var=installation.var)


def test_a_child_that_ignores_the_request_is_killed_after_its_supervisor(installation, settings, supervised):
    process, child, state = supervised
    record.write(installation, state)
    said, marked = [], []

    def say(line):
        said.append(line)
        marked.append(record.goes_on(installation, state.started_at))

    assert record.goes_on(installation, state.started_at)
    assert stop.stop(settings, say) == 1
    assert marked == [False, False]  # those who follow a run know from the first line on
    assert process.wait(5) == 0
    assert record.identify(child) is None or not any(
        p.pid == child for p in record.members(state.supervisor, installation.run)
    )
    assert said[-1] == "The stack is stopped; 1 left-over processes killed, 0 agents ended."
    assert record.read(installation) is None


def test_an_orphan_of_a_supervisor_that_was_killed_is_found_again(installation, settings, supervised):
    process, child, state = supervised
    record.write(installation, state)
    process.kill()
    process.wait()
    assert [p.pid for p in record.members(state.supervisor, installation.run)] == [child]
    assert stop.stop(settings, lambda line: None) == 1


def test_an_orphan_in_another_folder_is_not_ours_once_the_supervisor_has_gone(installation, supervised, tmp_path):
    process, _child, state = supervised
    process.kill()
    process.wait()
    assert record.members(state.supervisor, tmp_path / "elsewhere") == []


def test_a_second_stop_and_a_stop_before_any_start_are_harmless(installation, settings):
    said = []
    assert stop.stop(settings, said.append) == 0
    assert stop.stop(settings, said.append) == 0
    assert said == [f"No stack runs in {installation.var}; 0 agents ended."] * 2
    fresh = StackSettings(var=installation.var / "nothing")
    assert stop.stop(fresh, said.append) == 0
    assert not fresh.var.exists()


def test_a_half_written_record_is_no_stack(installation, settings):
    (installation.run / "stack.json").write_text('{"supervisor":')
    assert stop.stop(settings, lambda line: None) == 0


class Cloud:
    """An engine that ends its leases, or cannot reach them."""

    def __init__(self, *, left=(), error=None):
        self.left, self.error = left, error

    def stop_all(self, *, reason):
        if self.error is not None:
            raise self.error
        return ReleaseReport(ended={"train-a-g1": reason}, left=self.left)


def test_leases_in_a_cloud_end_with_the_installation(installation, settings, monkeypatch):
    said = []
    monkeypatch.setattr(stop, "ec2_engine", lambda *_: Cloud())
    stop.stop(settings, said.append)
    assert said[-1].endswith("1 agents ended.")


@pytest.mark.parametrize(
    ("cloud", "told"),
    [
        (Cloud(left=("train-a-g1",)), "Agents cannot be ended: train-a-g1"),
        (Cloud(error=ConnectionError("no route")), "Leases on EC2 cannot be ended: no route"),
    ],
)
def test_a_cloud_that_does_not_obey_is_no_success(installation, settings, monkeypatch, cloud, told):
    monkeypatch.setattr(stop, "ec2_engine", lambda *_: cloud)
    with pytest.raises(StackError, match=told):
        stop.stop(settings, lambda line: None)


def test_the_double_of_a_stack_has_ended_with_it_and_is_not_asked(installation, settings, supervised, monkeypatch):
    _, _, state = supervised
    record.write(installation, state.model_copy(update={"ports": {**PORTS, "ec2": 8700}}))
    monkeypatch.setattr(stop, "ec2_engine", lambda *_: pytest.fail("asks the double"))
    stop.stop(settings, lambda line: None)
