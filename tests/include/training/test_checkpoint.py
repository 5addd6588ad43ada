from __future__ import annotations

from pathlib import Path

import pytest
import torch

from include.core.errors import StoreError
from include.core.store import ObjectStore
from include.training.checkpoint import Checkpointer, read_tensors
from include.training.commit import checkpoint_name, parse_name

TENSORS = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.tensor(7), "c": torch.ones(3, dtype=torch.uint8)}


def checkpointer(store: ObjectStore, cache: Path, attempt: int = 1) -> Checkpointer:
    return Checkpointer(
        store=store, prefix="run/checkpoints", cache=cache, attempt=attempt, config="config", fingerprint="data"
    )


def test_saved_tensors_come_back_on_a_machine_with_an_empty_disk(any_store: ObjectStore, tmp_path: Path) -> None:
    checkpointer(any_store, tmp_path / "one").save(TENSORS, step=9)
    found = checkpointer(any_store, tmp_path / "two", attempt=2).newest()
    assert found is not None
    assert found.step == 9
    back = read_tensors(found.folder)
    assert back.keys() == TENSORS.keys()
    for name, value in TENSORS.items():
        assert back[name].dtype == value.dtype
        assert torch.equal(back[name], value)


def test_newest_is_by_step_then_attempt_as_numbers(file_store: ObjectStore, tmp_path: Path) -> None:
    for step, attempt in ((9, 11), (10, 2), (10, 10)):
        checkpointer(file_store, tmp_path / f"{attempt}", attempt).save(TENSORS, step=step)
    found = checkpointer(file_store, tmp_path / "new").newest()
    assert found is not None
    assert found.uri.endswith("step-10-10")


def test_committed_step_is_never_written_again(file_store: ObjectStore, tmp_path: Path) -> None:
    checkpointer(file_store, tmp_path / "one").save(TENSORS, step=9)
    before = file_store.get("run/checkpoints/step-9-1/COMMIT.json")
    with pytest.raises(StoreError, match="already committed"):
        checkpointer(file_store, tmp_path / "two").save({"a": torch.zeros(1)}, step=9)
    assert file_store.get("run/checkpoints/step-9-1/COMMIT.json") == before


def test_files_on_the_local_disk_are_used_when_their_digest_is_right(file_store: ObjectStore, tmp_path: Path) -> None:
    checkpointer(file_store, tmp_path / "cache").save(TENSORS, step=9)
    for key, _ in list(file_store.list("run/checkpoints")):
        if not key.endswith("COMMIT.json"):
            file_store.delete(key)
    assert checkpointer(file_store, tmp_path / "cache").newest() is not None
    assert checkpointer(file_store, tmp_path / "empty").newest() is None


def test_local_disk_keeps_the_last_two(file_store: ObjectStore, tmp_path: Path) -> None:
    saver = checkpointer(file_store, tmp_path / "cache")
    for step in (8, 9, 10, 11):
        saver.save(TENSORS, step=step)
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == ["step-10-1", "step-11-1"]
    assert len(saver.save_seconds) == 4


def test_names_are_read_back_and_others_ignored() -> None:
    assert parse_name(checkpoint_name(step=12, attempt=3)) == (12, 3)
    assert [parse_name(name) for name in ("step-1", "step-a-1", "tmp", "step-1-1.part")] == [None] * 4
