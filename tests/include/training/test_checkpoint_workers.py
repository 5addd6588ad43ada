"""Checkpoints of several workers: each shard once, and back on any other number of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from include.core.store import ObjectStore
from tests.support import sharded_state
from tests.support.preloaded import run_workers


def test_two_workers_to_one_to_four_between_replicas_and_shards(tmp_path: Path) -> None:
    root = str(tmp_path)
    saved = run_workers(2, sharded_state.save, root, "replicas", 1, 5)
    assert [answer["step"] for answer in saved] == [5, 5]
    assert saved[0]["digests"] == saved[1]["digests"]
    attempt = 2
    for world, kind in ((1, "replicas"), (4, "hsdp"), (2, "fsdp"), (2, "tensor"), (1, "fsdp")):
        loaded = run_workers(world, sharded_state.load, root, kind, attempt)
        steps = {(answer["step"], answer["offset"]) for answer in loaded}
        assert steps == {(5, 50)}
        for answer in loaded:
            assert answer["skipped"] == []
            # Position aside, which the loading worker has moved on by none.
            assert answer["digests"] == saved[0]["digests"]
        attempt += 1
        # Only the newest counts for the next one: the state that the last workers have saved again.
        rename_step(root, attempt - 1)


def rename_step(root: str, attempt: int) -> None:
    """Forget the older ones, so that the next reader reads what the last one wrote."""
    store = ObjectStore(f"file://{root}/store")
    names = {key.split("/")[2] for key, _ in store.list("run/checkpoints") if key.endswith("COMMIT.json")}
    assert f"step-6-{attempt}" in names
    for name in names - {f"step-6-{attempt}"}:
        store.delete(f"run/checkpoints/{name}/COMMIT.json")


@pytest.mark.parametrize(("kind", "world"), [("replicas", 2), ("fsdp", 2), ("hsdp", 4)])
def test_each_part_is_written_once(kind: str, world: int, tmp_path: Path) -> None:
    alone = run_workers(1, sharded_state.save, str(tmp_path / "alone"), "replicas", 1, 5)
    together = run_workers(world, sharded_state.save, str(tmp_path / "together"), kind, 1, 5)
    whole, parts = alone[0]["bytes"], sum(answer["bytes"] for answer in together)
    # Headers, layout and random states are per worker.
    assert whole <= parts < whole + world * 30_000


def test_generators_go_on_in_the_same_place_and_begin_anew_alike_elsewhere(tmp_path: Path) -> None:
    root = str(tmp_path)
    run_workers(2, sharded_state.save, root, "replicas", 1, 5)
    first = [answer["drawn"] for answer in run_workers(1, sharded_state.load, root, "replicas", 2)]
    rename = ObjectStore(f"file://{root}/store")
    rename.delete("run/checkpoints/step-6-2/COMMIT.json")
    again = [answer["drawn"] for answer in run_workers(1, sharded_state.load, root, "replicas", 3)]
    assert first == again


@pytest.mark.parametrize("at", [0, 1])
def test_full_disk_of_one_worker_fails_the_save_of_all_and_the_next_one_works(at: int, tmp_path: Path) -> None:
    answers = run_workers(2, sharded_state.save_with_a_full_disk, str(tmp_path), "fsdp", at)
    for answer in answers:
        assert answer["told"].startswith("2: cannot save checkpoint step-2-1")
        assert "No space left on device" in answer["told"]
        assert answer["last_step"] == 3
    commits = [key for key, _ in ObjectStore(f"file://{tmp_path}/store").list() if key.endswith("COMMIT.json")]
    assert sorted(key.split("/")[2] for key in commits) == ["step-1-1", "step-3-1"]
    loaded = run_workers(1, sharded_state.load, str(tmp_path), "replicas", 2)
    assert loaded[0]["skipped"] == []
