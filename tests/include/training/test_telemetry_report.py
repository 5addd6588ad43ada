from __future__ import annotations

import json
from pathlib import Path

import pytest

from include.core.contracts.diagnosis import Slowness
from include.core.json_codec import from_json, to_json
from include.core.json_file import write_json
from include.core.store import ObjectStore
from include.training.telemetry.facts import RankTelemetry
from include.training.telemetry.local_files import TELEMETRY, TRACES
from include.training.telemetry_report import AttemptTelemetry, publish_telemetry
from tests.support.diagnosis_series import step_facts

BASE = "runs/digits/r/jobs/train-1"


def worker(folder: Path, *, rank: int = 0, world: int = 1, **shares: float) -> Path:
    folder.mkdir()
    steps = step_facts(step_s=0.1, rank=rank, world=world, **shares)
    write_json(folder / TELEMETRY, to_json(RankTelemetry(rank=rank, world=world, steps=steps)))
    return folder


def test_all_workers_are_judged_together_and_published_once(any_store: ObjectStore, tmp_path: Path) -> None:
    folders = [
        worker(tmp_path / "0", rank=0, world=2, data_wait=0.01, forward=0.25, compute=0.9),
        worker(tmp_path / "1", rank=1, world=2, data_wait=0.4, forward=0.25, compute=0.55),
    ]
    found = publish_telemetry(folders, store=any_store, base=BASE)
    assert found is not None
    assert found.diagnosis.verdict == Slowness.STRAGGLER
    published = from_json(AttemptTelemetry, any_store.get_json(f"{BASE}/{TELEMETRY}"))
    assert published == found
    assert published.measured.step_s == pytest.approx(0.1)
    assert [rank.rank for rank in published.ranks] == [0, 1]
    assert publish_telemetry(folders, store=any_store, base=BASE) is None, "a later launch does not take it for its own"


def test_traces_go_along(file_store: ObjectStore, tmp_path: Path) -> None:
    folder = worker(tmp_path / "0", compute=0.9)
    (folder / TRACES).mkdir()
    (folder / TRACES / "step-9.json.gz").write_bytes(b"trace")
    publish_telemetry([folder], store=file_store, base=BASE)
    assert file_store.get(f"{BASE}/traces/step-9.json.gz") == b"trace"
    assert file_store.get_json(f"{BASE}/{TELEMETRY}")["traces"] == [file_store.uri(f"{BASE}/traces/step-9.json.gz")]


def test_worker_without_telemetry_is_left_out(file_store: ObjectStore, tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "2").mkdir()
    (tmp_path / "2" / TELEMETRY).write_text(json.dumps({"rank": "zero"}))
    folders = [worker(tmp_path / "0", data_wait=0.02, compute=0.9), tmp_path / "1", tmp_path / "2"]
    found = publish_telemetry(folders, store=file_store, base=BASE)
    assert found is not None
    assert found.diagnosis.verdict == Slowness.OK
    assert publish_telemetry([tmp_path / "1"], store=file_store, base=BASE) is None


@pytest.mark.parametrize("damage", ["half a file", "store is gone"])
def test_failure_here_ends_no_training(damage: str, tmp_path: Path) -> None:
    folder = worker(tmp_path / "0", compute=0.9)
    store = ObjectStore("file:///proc/no/such/place")
    if damage == "half a file":
        (folder / TELEMETRY).write_text('{"rank": 0, "wor')
    assert publish_telemetry([folder], store=store, base=BASE) is None
