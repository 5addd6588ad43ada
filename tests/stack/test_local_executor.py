"""The executor against the race between a task that resumes and the process of its first half."""

import multiprocessing
from multiprocessing import SimpleQueue
from types import SimpleNamespace

import pytest

KEY = "digits.train.run.1"


@pytest.fixture
def executor(tmp_path, monkeypatch):
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    from stack.local_executor import PatientLocalExecutor

    made = PatientLocalExecutor(parallelism=2)
    made.activity_queue, made.result_queue = SimpleQueue(), SimpleQueue()
    made.workers, made._unread_messages = {}, multiprocessing.Value("I")
    monkeypatch.setattr(made, "_check_workers", lambda: None)
    return made


def hand_over(executor, key=KEY):
    workload = SimpleNamespace(key=key)
    executor.queued_tasks[key] = workload
    executor.running.add(key)
    executor._process_workloads([workload])


def end(executor, key=KEY, state="success"):
    executor.result_queue.put((key, state, None))
    executor._read_results()


def test_the_end_of_a_task_is_reported(executor):
    hand_over(executor)
    end(executor)
    assert executor.event_buffer == {KEY: ("success", None)}
    assert KEY not in executor.running


def test_the_late_end_of_the_first_half_is_not_the_end_of_the_second(executor):
    hand_over(executor)
    hand_over(executor)
    end(executor)
    assert executor.event_buffer == {}
    assert KEY in executor.running
    end(executor, state="failed")
    assert executor.event_buffer == {KEY: ("failed", None)}
    assert KEY not in executor.running


def test_halves_one_after_the_other_are_both_reported(executor):
    for state in ("success", "failed"):
        hand_over(executor)
        end(executor, state=state)
        assert executor.event_buffer.pop(KEY) == (state, None)


def test_another_task_is_not_held_back(executor):
    hand_over(executor)
    hand_over(executor)
    hand_over(executor, "other")
    end(executor, "other")
    assert executor.event_buffer == {"other": ("success", None)}


def test_nothing_is_remembered_of_a_task_that_has_ended(executor):
    hand_over(executor)
    end(executor)
    assert not executor._handed_over
