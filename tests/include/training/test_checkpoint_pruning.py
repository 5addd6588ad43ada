"""Retention and collection against real stores, beside other attempts and damaged commits."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch

from include.core.store import ObjectStore
from include.training import checkpoint_pruning
from include.training.checkpoint import Checkpointer
from include.training.retention import RetentionPolicy

KEEP_TWO = RetentionPolicy(keep_last=2, keep_best=0)
STILL = torch.arange(100_000.0)


def checkpointer(store: ObjectStore, cache: Path, attempt: int = 1, **more: Any) -> Checkpointer:
    options = {"retention": KEEP_TWO, **more}
    return Checkpointer(
        store=store, prefix="run/checkpoints", cache=cache, attempt=attempt, config="c", fingerprint="d", **options
    )


def save(saver: Checkpointer, step: int, **more: Any) -> None:
    saver.save({"still": STILL, "moving": STILL + step}, step=step, **more)
    saver.settle()


def names(store: ObjectStore) -> list[str]:
    return sorted(key.split("/")[2] for key, _ in store.list("run/checkpoints") if key.endswith("COMMIT.json"))


def blobs(store: ObjectStore) -> set[str]:
    return {key.split("/")[-1].removesuffix(".safetensors") for key, _ in store.list("run/checkpoints/blobs")}


def needed(store: ObjectStore) -> set[str]:
    commits = [store.get_json(f"run/checkpoints/{name}/COMMIT.json") for name in names(store)]
    return {blob["sha256"] for commit in commits for blob in commit["blobs"]}


def test_old_checkpoints_go_with_the_blobs_that_no_other_needs(any_store: ObjectStore, tmp_path: Path) -> None:
    saver = checkpointer(any_store, tmp_path / "cache")
    for step in range(1, 6):
        save(saver, step)
    assert names(any_store) == ["step-4-1", "step-5-1"]
    assert blobs(any_store) == needed(any_store)
    assert {key.split("/")[2] for key, _ in any_store.list("run/checkpoints")} == {"blobs", "step-4-1", "step-5-1"}
    assert len(blobs(any_store)) == 3
    loader = checkpointer(any_store, tmp_path / "other", attempt=2)
    found = loader.newest()
    assert found is not None
    into = {"still": torch.zeros(100_000), "moving": torch.zeros(100_000)}
    loader.load(found, into)
    assert torch.equal(into["still"], STILL)
    assert torch.equal(into["moving"], STILL + 5)


def test_best_and_referenced_stay(file_store: ObjectStore, tmp_path: Path) -> None:
    policy = RetentionPolicy(keep_last=1, keep_best=1)
    saver = checkpointer(file_store, tmp_path / "cache", retention=policy, referenced=("s3://b/checkpoints/step-3-1",))
    for step, metric in ((1, 0.5), (2, 0.9), (3, 0.1), (4, 0.8), (5, 0.7)):
        save(saver, step, metric=metric)
    assert names(file_store) == ["step-2-1", "step-3-1", "step-5-1"]
    assert blobs(file_store) == needed(file_store)


def test_nothing_goes_while_a_commit_cannot_be_read(file_store: ObjectStore, tmp_path: Path) -> None:
    saver = checkpointer(file_store, tmp_path / "cache")
    save(saver, 1)
    file_store.put("run/checkpoints/step-9-0/COMMIT.json", b"half of")
    before = blobs(file_store)
    for step in (2, 3, 4):
        save(saver, step)
    assert names(file_store) == ["step-1-1", "step-2-1", "step-3-1", "step-4-1", "step-9-0"]
    assert before < blobs(file_store)


def test_older_attempt_that_still_lives_removes_nothing(file_store: ObjectStore, tmp_path: Path) -> None:
    old = checkpointer(file_store, tmp_path / "old", attempt=1)
    save(old, 1)
    save(checkpointer(file_store, tmp_path / "new", attempt=2), 2)
    for step in (5, 6, 7):
        save(old, step)
    assert names(file_store) == ["step-1-1", "step-2-2", "step-5-1", "step-6-1", "step-7-1"]


def test_last_commit_of_this_attempt_stays_beside_newer_ones_that_are_damaged(
    file_store: ObjectStore, tmp_path: Path
) -> None:
    old = checkpointer(file_store, tmp_path / "old", attempt=1, retention=RetentionPolicy(keep_last=9))
    for step in (1, 8, 9):
        save(old, step)
    commit = {step: file_store.get_json(f"run/checkpoints/step-{step}-1/COMMIT.json") for step in (1, 8, 9)}
    mine = {step: {blob["sha256"] for blob in commit[step]["blobs"]} for step in commit}
    for step in (8, 9):
        for digest in mine[step] - mine[1]:
            file_store.put(f"run/checkpoints/blobs/{digest}.safetensors", b"spoilt")
    saver = checkpointer(file_store, tmp_path / "new", attempt=2)
    found = saver.newest()
    assert found is not None
    assert found.step == 1
    for step in (2, 3, 4):
        save(saver, step)
    assert names(file_store) == ["step-3-2", "step-4-2"]
    assert needed(file_store) <= blobs(file_store)


def test_blob_of_a_save_under_way_elsewhere_stays_until_it_is_old(
    file_store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saver = checkpointer(file_store, tmp_path / "cache")
    for step in (1, 2):
        save(saver, step)
    file_store.put(f"run/checkpoints/blobs/{'a' * 64}.safetensors", b"of a save under way")
    save(saver, 3)
    assert "a" * 64 in blobs(file_store)
    monkeypatch.setattr(checkpoint_pruning, "ORPHAN_AGE", timedelta(0))
    save(saver, 4)
    assert blobs(file_store) == needed(file_store)


def test_blob_that_was_written_again_after_the_commit_that_goes_stays(file_store: ObjectStore, tmp_path: Path) -> None:
    saver = checkpointer(file_store, tmp_path / "cache")
    save(saver, 1)
    gone = needed(file_store)
    save(saver, 2)
    (moving,) = gone - {blob["sha256"] for blob in file_store.get_json("run/checkpoints/step-2-1/COMMIT.json")["blobs"]}
    data = file_store.get(f"run/checkpoints/blobs/{moving}.safetensors")
    assert data is not None
    # Another process is about to commit the same content.
    file_store.put(f"run/checkpoints/blobs/{moving}.safetensors", data)
    save(saver, 3)
    assert names(file_store) == ["step-2-1", "step-3-1"]
    assert moving in blobs(file_store)


def test_failing_removal_takes_nothing_from_the_commit(
    file_store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saver = checkpointer(file_store, tmp_path / "cache")
    for step in (1, 2):
        save(saver, step)
    delete = ObjectStore.delete

    def fail(self: ObjectStore, key: str) -> None:
        raise OSError("read-only file system")

    monkeypatch.setattr(ObjectStore, "delete", fail)
    save(saver, 3)
    assert saver.last_step == 3
    monkeypatch.setattr(ObjectStore, "delete", delete)
    save(saver, 4)
    assert names(file_store) == ["step-3-1", "step-4-1"]
