"""A drill hits a training however short it is: it waits for the notice where the drill wants it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from include.core.json_file import read_json
from include.core.store import ObjectStore
from include.training import drill_hold
from include.training.drill_hold import DrillHold
from include.training.outcome import WorkerOutcome
from include.training.stop import StopFlag
from tests.support.training import train_request, write_dataset

Attempt = Callable[..., WorkerOutcome]
HOLD, NOTICE = "drill-hold.json", "notice.json"


def give_notice_when_far_enough(job_dir: Path, fraction: float, ended: threading.Event) -> None:
    """What the agent does, by the progress that it reads."""
    while not ended.wait(0.005):
        shown = read_json(job_dir / "progress.json")
        if isinstance(shown, dict) and shown["fraction"] >= fraction:
            time.sleep(0.1)  # the whole rest of the training takes less
            (job_dir / NOTICE).write_text('{"grace_s": 100}')
            return


@pytest.mark.usefixtures("quick_saves")
@pytest.mark.parametrize(("fraction", "step"), [(0.5, 6), (1 / 3, 5), (0.75, 9)])
def test_a_training_of_a_moment_is_interrupted_where_the_drill_wants_it(
    fraction: float, step: int, file_store: ObjectStore, attempt: Attempt, tmp_path: Path
) -> None:
    ended = threading.Event()
    agent = threading.Thread(target=give_notice_when_far_enough, args=(tmp_path / "job-0", fraction, ended))
    agent.start()
    try:
        outcome = attempt(
            train_request(write_dataset(file_store)), file_store, files={HOLD: json.dumps({"at": fraction})}
        )
    finally:
        ended.set()
        agent.join()
    # The step after the one at which it held is the one that hears of the notice.
    assert (outcome.status, outcome.step) == ("preempted", step + 1)
    account = read_json(attempt.folders[0] / "steps.json")
    assert isinstance(account, dict)
    assert account["last_executed_step"] == account["committed_step"] == step + 1


@pytest.mark.usefixtures("quick_saves")
def test_a_notice_that_never_comes_holds_a_training_up_once_and_for_so_long(
    file_store: ObjectStore, attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = []
    monkeypatch.setattr(DrillHold, "wait", lambda hold, stop: waits.append(drill_hold_wait(hold, stop)))
    outcome = attempt(train_request(write_dataset(file_store)), file_store, files={HOLD: '{"at": 0.5}'})
    assert outcome.status == "done"
    assert waits == [False]


def drill_hold_wait(hold: DrillHold, stop: StopFlag, wait: Callable[..., bool] = DrillHold.wait) -> bool:
    assert hold.longest_s == drill_hold.LONGEST_S == 5.0
    hold.longest_s = 0.05
    return wait(hold, stop)


@pytest.mark.parametrize("text", [None, "[]", "{}", '{"at": "half"}', '{"at": 7}'])
def test_without_a_fraction_nothing_holds(text: str | None, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / HOLD).write_text(text)
    assert DrillHold.of(tmp_path) is None


def test_it_holds_once_from_its_fraction_on(tmp_path: Path) -> None:
    (tmp_path / HOLD).write_text('{"at": 0.5}')
    (tmp_path / NOTICE).write_text("{}")
    hold = DrillHold.of(tmp_path)
    assert hold is not None
    assert not hold.due(0.4999)
    assert hold.due(0.5)
    assert hold.wait(StopFlag(tmp_path))
    assert not hold.due(0.9)
