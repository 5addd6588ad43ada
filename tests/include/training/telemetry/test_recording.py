from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from include.core.json_codec import from_json
from include.training.telemetry import recording as recording_module
from include.training.telemetry.facts import HOST_CPU, LOADER_QUEUE, RankTelemetry
from include.training.telemetry.local_files import TELEMETRY
from include.training.telemetry.recording import Recorder, recording
from include.training.telemetry.step_timer import StepTimer
from tests.support.waiting import eventually

NOWHERE = "http://127.0.0.1:9/metrics"


def steps(timer: StepTimer, number: int) -> None:
    for _ in range(number):
        with timer.computing():
            pass
        timer.end_step(samples=4)


def read(folder: Path) -> RankTelemetry:
    return from_json(RankTelemetry, json.loads((folder / TELEMETRY).read_text()))


def record(timer: StepTimer, folder: Path, **more: object):
    settings = {"device": torch.device("cpu"), "rank": 1, "world": 2, "dcgm_url": NOWHERE, **more}
    return recording(timer, folder=folder, **settings)


def test_everything_of_the_worker_is_in_the_file(tmp_path: Path) -> None:
    timer = StepTimer(rank=1, world=2)
    with record(timer, tmp_path, loader_queue=lambda: 3.0, every_s=0.03) as recorder:
        steps(timer, 30)
        eventually(lambda: HOST_CPU in recorder.facts().series)
    found = read(tmp_path)
    assert (found.rank, found.world, found.steps.steps, found.steps.samples) == (1, 2, 30, 120)
    assert found.series[LOADER_QUEUE].recent[0] == 3.0
    assert HOST_CPU in found.series
    assert found.machine.device == "cpu"
    assert found.machine.device_memory_bytes is None
    assert found.machine.host_memory_bytes > 2**20
    assert found.machine.checkpoint_every_s is None
    assert found.began_at > 1.7e9


@pytest.mark.parametrize("end", [RuntimeError("diverged"), KeyboardInterrupt()])
def test_file_is_written_however_the_training_ends(end: BaseException, tmp_path: Path) -> None:
    timer = StepTimer()

    def train() -> None:
        with record(timer, tmp_path):
            steps(timer, 3)
            raise end

    with pytest.raises(type(end)):
        train()
    assert read(tmp_path).steps.steps == 3


def test_worker_that_is_killed_leaves_what_was_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording_module, "_WRITE_EVERY_S", 0.0)
    timer = StepTimer()
    recorder = Recorder(timer=timer, folder=tmp_path, device=torch.device("cpu"), readers=[], every_s=0.005)
    recorder.start()
    steps(timer, 5)
    eventually(lambda: (tmp_path / TELEMETRY).exists() and read(tmp_path).steps.steps == 5)
    recorder.stop()


def test_full_disk_ends_no_training(tmp_path: Path) -> None:
    timer = StepTimer()
    with record(timer, tmp_path / "gone"):
        steps(timer, 3)
    assert timer.steps == 3


def test_distance_of_the_checkpoints_is_measured(tmp_path: Path) -> None:
    now = [0.0]
    timer = StepTimer(clock=lambda: now[0])
    with record(timer, tmp_path):
        for number in range(40):
            now[0] += 1.0
            timer.end_step(samples=1)
            if number % 10 == 9:
                with timer.saving():
                    now[0] += 0.1
    assert read(tmp_path).machine.checkpoint_every_s == pytest.approx(10.1)


def test_only_the_first_rank_is_profiled(tmp_path: Path) -> None:
    for rank in (0, 1):
        folder = tmp_path / str(rank)
        folder.mkdir()
        timer = StepTimer(rank=rank)
        with record(timer, folder, rank=rank, profile_steps=1):
            steps(timer, 6)
        assert (folder / "traces").exists() == (rank == 0)
