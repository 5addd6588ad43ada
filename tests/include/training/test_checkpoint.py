from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from obstore.exceptions import GenericError

from include.core.errors import StoreError
from include.core.store import ObjectStore
from include.training import blob_store
from include.training.checkpoint import Checkpointer, RivalError
from include.training.commit import checkpoint_name, parse_name

TENSORS = {
    "a": torch.arange(6.0).reshape(2, 3),
    "b": torch.tensor(7),
    "c": torch.ones(3, dtype=torch.uint8),
    "large": torch.arange(100_000.0),
    "half": torch.arange(200_000, dtype=torch.bfloat16).reshape(2, -1),
    "mask": torch.tensor([True, False]),
    "none": torch.empty(0, 4),
}


def checkpointer(store: ObjectStore, cache: Path, attempt: int = 1, **more: Any) -> Checkpointer:
    return Checkpointer(
        store=store, prefix="run/checkpoints", cache=cache, attempt=attempt, config="config", fingerprint="data", **more
    )


def save(saver: Checkpointer, tensors: dict[str, torch.Tensor], *, step: int) -> None:
    saver.save(tensors, step=step)
    saver.settle()


def load(loader: Checkpointer, like: dict[str, torch.Tensor] = TENSORS) -> dict[str, torch.Tensor]:
    found = loader.newest()
    assert found is not None
    assert found.names == like.keys()
    back = {name: torch.full_like(value, 1) for name, value in like.items()}
    loader.load(found, back)
    return back


def blob_keys(store: ObjectStore) -> set[str]:
    return {key for key, _ in store.list("run/checkpoints/blobs")}


def test_saved_tensors_come_back_on_a_machine_with_an_empty_disk(any_store: ObjectStore, tmp_path: Path) -> None:
    save(checkpointer(any_store, tmp_path / "one"), TENSORS, step=9)
    loader = checkpointer(any_store, tmp_path / "two", attempt=2)
    back = load(loader)
    assert loader.last_step == 9
    for name, value in TENSORS.items():
        assert back[name].dtype == value.dtype
        assert torch.equal(back[name], value)


def test_copy_is_taken_at_once_and_nothing_exists_before_the_commit(
    file_store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, gate = blob_store.BlobStore.write, []

    def slow(self: blob_store.BlobStore, content: Any) -> int:
        while not gate:
            time.sleep(0.001)
        return whole(self, content)

    monkeypatch.setattr(blob_store.BlobStore, "write", slow)
    live = {name: value.clone() for name, value in TENSORS.items()}
    saver = checkpointer(file_store, tmp_path / "one")
    saver.save(live, step=9)
    live["a"].zero_()
    live["large"].zero_()
    assert (saver.last_step, saver.last_uri, saver.save_seconds) == (0, "", [])
    assert not file_store.exists("run/checkpoints/step-9-1/COMMIT.json")
    gate.append(True)
    saver.settle()
    assert (saver.last_step, len(saver.save_seconds)) == (9, 1)
    assert saver.last_uri == file_store.uri("run/checkpoints/step-9-1")
    assert saver.stall_s > 0
    back = load(checkpointer(file_store, tmp_path / "two"))
    assert torch.equal(back["a"], TENSORS["a"])
    assert torch.equal(back["large"], TENSORS["large"])


def test_newest_is_by_step_then_attempt_as_numbers(file_store: ObjectStore, tmp_path: Path) -> None:
    for step, attempt in ((9, 11), (10, 2), (10, 10)):
        save(checkpointer(file_store, tmp_path / f"{attempt}", attempt), TENSORS, step=step)
    found = checkpointer(file_store, tmp_path / "new").newest()
    assert found is not None
    assert found.uri.endswith("step-10-10")


def test_committed_step_is_never_written_again(any_store: ObjectStore, tmp_path: Path) -> None:
    save(checkpointer(any_store, tmp_path / "one"), TENSORS, step=9)
    before = {key: any_store.get(key) for key, _ in any_store.list("run/checkpoints/step-9-1")}
    rival = checkpointer(any_store, tmp_path / "two")
    rival.save(TENSORS, step=9)
    with pytest.raises(RivalError, match="already committed"):
        rival.settle()
    with pytest.raises(StoreError, match="already committed"):
        rival.save(TENSORS, step=10)
    assert {key: any_store.get(key) for key, _ in any_store.list("run/checkpoints/step-9-1")} == before
    assert rival.last_step == 0


def test_commit_whose_answer_was_lost_is_known_again(
    file_store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create, lost = ObjectStore.create_json, []

    def lossy(self: ObjectStore, key: str, value: Any) -> bool:
        made = create(self, key, value)
        if not lost:
            lost.append(key)
            raise GenericError("connection reset")
        return made

    monkeypatch.setattr(ObjectStore, "create_json", lossy)
    saver = checkpointer(file_store, tmp_path / "one")
    save(saver, TENSORS, step=9)
    assert saver.last_step == 9
    assert lost == ["run/checkpoints/step-9-1/COMMIT.json"]


def test_files_on_the_local_disk_are_used_when_their_digest_is_right(file_store: ObjectStore, tmp_path: Path) -> None:
    save(checkpointer(file_store, tmp_path / "cache"), TENSORS, step=9)
    for key, _ in list(file_store.list("run/checkpoints")):
        if not key.endswith("COMMIT.json"):
            file_store.delete(key)
    assert checkpointer(file_store, tmp_path / "cache").newest() is not None
    assert checkpointer(file_store, tmp_path / "empty").newest() is None


def test_damaged_file_on_the_local_disk_is_fetched_again(any_store: ObjectStore, tmp_path: Path) -> None:
    save(checkpointer(any_store, tmp_path / "cache"), TENSORS, step=9)
    for path in (tmp_path / "cache" / "blobs").iterdir():
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.unlink()  # a second name of the file may be in the store
        path.write_bytes(data)
    assert torch.equal(load(checkpointer(any_store, tmp_path / "cache"))["large"], TENSORS["large"])


def test_local_disk_keeps_the_last_two(file_store: ObjectStore, tmp_path: Path) -> None:
    saver = checkpointer(file_store, tmp_path / "cache")
    for step in (8, 9, 10, 11):
        save(saver, {**TENSORS, "large": TENSORS["large"] + step}, step=step)
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == ["blobs", "step-10-1", "step-11-1"]
    kept = {
        blob["sha256"]
        for step in (10, 11)
        for blob in file_store.get_json(f"run/checkpoints/step-{step}-1/COMMIT.json")["blobs"]
    }
    assert {path.stem for path in (tmp_path / "cache" / "blobs").iterdir()} == kept
    assert len(saver.save_seconds) == 4
    assert len(blob_keys(file_store)) > len(kept)


def test_only_what_changed_is_written(any_store: ObjectStore, tmp_path: Path) -> None:
    saver = checkpointer(any_store, tmp_path / "cache")
    save(saver, TENSORS, step=1)
    before, written = blob_keys(any_store), saver.bytes_written
    save(saver, {**TENSORS, "large": TENSORS["large"] + 1}, step=2)
    changed = TENSORS["large"].nbytes
    assert len(blob_keys(any_store) - before) == 1
    assert changed <= saver.bytes_written - written < changed + 4096
    resumed = checkpointer(any_store, tmp_path / "other", attempt=2)
    assert torch.equal(load(resumed)["large"], TENSORS["large"] + 1)
    save(resumed, {**TENSORS, "large": TENSORS["large"] + 2}, step=3)
    assert changed <= resumed.bytes_written < changed + 4096


def test_blob_that_no_commit_names_is_written_again(file_store: ObjectStore, tmp_path: Path) -> None:
    save(checkpointer(file_store, tmp_path / "one"), TENSORS, step=1)
    file_store.delete("run/checkpoints/step-1-1/COMMIT.json")
    for key in blob_keys(file_store):
        file_store.put(key, b"half of it")
    save(checkpointer(file_store, tmp_path / "two", attempt=2), TENSORS, step=1)
    assert torch.equal(load(checkpointer(file_store, tmp_path / "three"))["large"], TENSORS["large"])


def frozen_and_moving() -> dict[str, torch.Tensor]:
    return {
        "backbone": torch.nn.Parameter(torch.arange(200_000.0), requires_grad=False),
        "norm": torch.nn.Parameter(torch.arange(100.0), requires_grad=False),
        "head": torch.nn.Parameter(torch.arange(100.0)),
    }


def test_frozen_parameters_are_hashed_once_and_their_copy_is_given_back(
    file_store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from include.training import blob_writer

    hashed: list[str] = []
    compose = blob_writer.compose

    def recording(tensors: Any) -> Any:
        hashed.extend(name for name, _ in tensors)
        return compose(tensors)

    monkeypatch.setattr(blob_writer, "compose", recording)
    state, saver = frozen_and_moving(), checkpointer(file_store, tmp_path / "cache")
    save(saver, state, step=1)
    assert sorted(hashed) == ["backbone", "head", "norm"]
    state["head"].data.add_(1)
    save(saver, state, step=2)
    assert sorted(hashed) == ["backbone", "head", "head", "norm"]
    back = load(checkpointer(file_store, tmp_path / "two"), state)
    assert all(torch.equal(back[name], state[name]) for name in state)


@pytest.mark.parametrize(
    "change",
    [
        lambda parameter: parameter.add_(1),
        lambda parameter: parameter.data.mul_(2),
        lambda parameter: setattr(parameter, "data", parameter.data + 1),
        lambda parameter: parameter.copy_(torch.zeros_like(parameter)),
        # One element of 200,000, where no sample would look.
        lambda parameter: parameter.data[12_347:12_348].fill_(-1),
    ],
)
def test_frozen_parameter_that_changed_after_all_is_saved_as_it_is(
    change: Callable[[torch.Tensor], Any], file_store: ObjectStore, tmp_path: Path
) -> None:
    state, saver = frozen_and_moving(), checkpointer(file_store, tmp_path / "cache")
    save(saver, state, step=1)
    with torch.no_grad():
        change(state["backbone"])
    save(saver, state, step=2)
    assert torch.equal(load(checkpointer(file_store, tmp_path / "two"), state)["backbone"], state["backbone"])


def test_many_small_tensors_are_few_objects_that_safetensors_reads(file_store: ObjectStore, tmp_path: Path) -> None:
    state = {f"t{i}": torch.full((i + 1,), float(i)) for i in range(300)}
    save(checkpointer(file_store, tmp_path / "cache"), state, step=1)
    keys = blob_keys(file_store)
    assert len(keys) == 1
    data = file_store.get(keys.pop())
    assert data is not None
    back = safetensors.torch.load(data)
    assert back.keys() == state.keys()
    assert all(torch.equal(back[name], state[name]) for name in state)


def test_nothing_in_the_store_is_a_pickle(file_store: ObjectStore, tmp_path: Path) -> None:
    save(checkpointer(file_store, tmp_path / "cache"), TENSORS, step=1)
    for key, _ in file_store.list("run/checkpoints"):
        data = file_store.get(key)
        assert data is not None
        if key.endswith(".json"):
            json.loads(data)
        else:
            assert key.endswith(".safetensors")
            safetensors.torch.load(data)


def test_failed_save_is_made_good_by_the_next_one_and_is_an_error_only_at_the_end(
    file_store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saver = checkpointer(file_store, tmp_path / "cache", patience_s=0)
    save(saver, TENSORS, step=1)
    place = ObjectStore.place

    def full(self: ObjectStore, path: Path, key: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ObjectStore, "place", full)
    saver.save({**TENSORS, "large": TENSORS["large"] + 1}, step=2)
    with pytest.raises(StoreError, match=r"step-2-1.*No space left on device"):
        saver.settle()
    assert saver.last_step == 1
    # What the failed save had written may be what has filled the disk.
    committed = {blob["sha256"] for blob in file_store.get_json("run/checkpoints/step-1-1/COMMIT.json")["blobs"]}
    assert {path.stem for path in (tmp_path / "cache" / "blobs").iterdir()} == committed
    saver.save({**TENSORS, "large": TENSORS["large"] + 2}, step=3)
    monkeypatch.setattr(ObjectStore, "place", place)
    saver.save({**TENSORS, "large": TENSORS["large"] + 3}, step=4)
    saver.settle()
    assert saver.last_step == 4
    back = load(checkpointer(file_store, tmp_path / "two"))
    assert torch.equal(back["large"], TENSORS["large"] + 3)


def test_store_that_does_not_answer_is_asked_again(
    file_store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, back_at = ObjectStore.place, time.monotonic() + 0.5

    def away(self: ObjectStore, path: Path, key: str) -> None:
        if time.monotonic() < back_at:
            raise GenericError("error sending request")
        place(self, path, key)

    monkeypatch.setattr(ObjectStore, "place", away)
    save(checkpointer(file_store, tmp_path / "cache", patience_s=10), TENSORS, step=1)
    assert load(checkpointer(file_store, tmp_path / "two"))


def test_lasting_error_of_the_store_is_not_waited_out(
    file_store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from obstore.exceptions import PermissionDeniedError

    def refuse(self: ObjectStore, path: Path, key: str) -> None:
        raise PermissionDeniedError("403 Forbidden")

    monkeypatch.setattr(ObjectStore, "place", refuse)
    saver = checkpointer(file_store, tmp_path / "cache", patience_s=60)
    began = time.monotonic()
    saver.save(TENSORS, step=1)
    with pytest.raises(StoreError, match="403 Forbidden"):
        saver.settle()
    assert time.monotonic() - began < 5


def test_checkpoint_of_another_shape_is_refused(file_store: ObjectStore, tmp_path: Path) -> None:
    save(checkpointer(file_store, tmp_path / "one"), TENSORS, step=1)
    loader = checkpointer(file_store, tmp_path / "two")
    found = loader.newest()
    assert found is not None
    with pytest.raises(StoreError, match="mismatch"):
        loader.load(found, {"a": torch.zeros(3, 3)})
    with pytest.raises(StoreError, match="unknown"):
        loader.load(found, {"unknown": torch.zeros(3, 3)})


def test_names_are_read_back_and_others_ignored() -> None:
    assert parse_name(checkpoint_name(step=12, attempt=3)) == (12, 3)
    assert [parse_name(name) for name in ("step-1", "step-a-1", "tmp", "step-1-1.part", "blobs")] == [None] * 5


def test_damaged_commit_of_this_attempt_is_no_rival(file_store: ObjectStore, tmp_path: Path) -> None:
    first = checkpointer(file_store, tmp_path / "one")
    save(first, TENSORS, step=1)
    save(first, {**TENSORS, "large": TENSORS["large"] + 1}, step=2)
    (changed,) = {b["sha256"] for b in file_store.get_json("run/checkpoints/step-2-1/COMMIT.json")["blobs"]} - {
        b["sha256"] for b in file_store.get_json("run/checkpoints/step-1-1/COMMIT.json")["blobs"]
    }
    file_store.put(f"run/checkpoints/blobs/{changed}.safetensors", b"spoilt")
    # torchrun starts workers again within the same attempt.
    again = checkpointer(file_store, tmp_path / "two")
    found = again.newest()
    assert found is not None
    assert found.step == 1
    again.save({**TENSORS, "large": TENSORS["large"] + 1}, step=2)
    again.save({**TENSORS, "large": TENSORS["large"] + 2}, step=3)
    again.settle()
    assert again.last_step == 3
