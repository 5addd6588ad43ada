"""What looks like a checkpoint and is none is passed over with its reason, and nothing outside is read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from include.core.contracts.checkpoint import CheckpointBlob, CheckpointCommit, CheckpointFile
from include.core.json_codec import from_json, to_json
from include.core.store import ObjectStore
from include.training.checkpoint import Checkpointer
from include.training.commit import seal

BASE = "run/checkpoints"
STATE = {"large": torch.arange(100_000.0), "small": torch.arange(3)}


def checkpointer(store: ObjectStore, cache: Path, attempt: int = 1) -> Checkpointer:
    return Checkpointer(store=store, prefix=BASE, cache=cache, attempt=attempt, config="c", fingerprint="d")


@pytest.fixture
def saved(file_store: ObjectStore, tmp_path: Path) -> ObjectStore:
    """A store with good checkpoints of steps 1 and 2."""
    saver = checkpointer(file_store, tmp_path / "saver")
    for step in (1, 2):
        saver.save({**STATE, "large": STATE["large"] + step}, step=step)
        saver.settle()
    return file_store


def expect_first(store: ObjectStore, cache: Path, reason: str, name: str = "step-2-1") -> None:
    """The bad one is told and passed over, and the next good one is loaded."""
    loader = checkpointer(store, cache, attempt=2)
    found = loader.newest()
    assert found is not None
    assert found.step == (1 if name == "step-2-1" else 2)
    assert [skipped for skipped, _ in loader.skipped] == [name]
    assert reason in loader.skipped[0][1]
    assert "\n" not in loader.skipped[0][1]
    back = {key: torch.zeros_like(value) for key, value in STATE.items()}
    loader.load(found, back)
    assert torch.equal(back["large"], STATE["large"] + found.step)


def forge(store: ObjectStore, **changes: Any) -> None:
    """The commit of step 2 with other content and a right seal, which anybody can compute."""
    commit = from_json(CheckpointCommit, store.get_json(f"{BASE}/step-2-1/COMMIT.json"))
    store.put_json(f"{BASE}/step-2-1/COMMIT.json", to_json(seal(replace(commit, **changes))))


@pytest.mark.parametrize("name", ["../../x", "/etc/hostname", "", "a\0b", "x" * 5000, "COMMIT.json"])
def test_file_names_other_than_the_layouts(name: str, saved: ObjectStore, tmp_path: Path) -> None:
    forge(saved, files=(CheckpointFile(name=name, size_bytes=1, sha256="a" * 64),))
    expect_first(saved, tmp_path / "loader", "names what no checkpoint has")


def test_a_file_outside_is_not_read_although_its_digest_is_right(saved: ObjectStore, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"{}")
    digest = hashlib.sha256(b"{}").hexdigest()
    forge(saved, files=(CheckpointFile(name=str(secret), size_bytes=2, sha256=digest),))
    expect_first(saved, tmp_path / "loader", "names what no checkpoint has")


@pytest.mark.parametrize("digest", ["../../x", "A" * 64, "", "a" * 63])
def test_blobs_that_are_no_digests(digest: str, saved: ObjectStore, tmp_path: Path) -> None:
    forge(saved, blobs=(CheckpointBlob(sha256=digest, size_bytes=1),))
    expect_first(saved, tmp_path / "loader", "names what no checkpoint has")


def test_no_blobs_at_all(saved: ObjectStore, tmp_path: Path) -> None:
    forge(saved, blobs=())
    expect_first(saved, tmp_path / "loader", "names what no checkpoint has")


@pytest.mark.parametrize("content", [b"[" * 100_000, b"", b"null", b"\xff", b"{}"])
def test_commits_that_are_no_commits(content: bytes, saved: ObjectStore, tmp_path: Path) -> None:
    saved.put(f"{BASE}/step-2-1/COMMIT.json", content)
    expect_first(saved, tmp_path / "loader", "COMMIT.json is not readable")


def _beyond(layout: dict[str, Any]) -> None:
    layout["tensors"]["large"]["chunks"][0]["at"] = 10**9


def _uncovered(layout: dict[str, Any]) -> None:
    layout["tensors"]["large"]["chunks"] = []


def _elsewhere(layout: dict[str, Any]) -> None:
    layout["tensors"]["large"]["chunks"][0]["offsets"] = [1]


def _unknown_type(layout: dict[str, Any]) -> None:
    layout["tensors"]["large"]["dtype"] = "save"


def _empty(layout: dict[str, Any]) -> None:
    layout["tensors"] = {}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_beyond, "outside of its blob"),
        (_uncovered, "not the whole of it"),
        (_elsewhere, "outside of the tensor"),
        (_unknown_type, "unknown type"),
        (_empty, "no tensors"),
    ],
)
def test_layouts_that_cannot_be_meant(
    change: Callable[[dict[str, Any]], None], reason: str, saved: ObjectStore, tmp_path: Path
) -> None:
    layout = saved.get_json(f"{BASE}/step-2-1/layout.json")
    change(layout)
    put_layout(saved, json.dumps(layout).encode())
    expect_first(saved, tmp_path / "loader", reason)


def test_a_layout_too_deep_to_read(saved: ObjectStore, tmp_path: Path) -> None:
    put_layout(saved, b"[" * 100_000)
    expect_first(saved, tmp_path / "loader", "layout.json is not readable")


def put_layout(store: ObjectStore, data: bytes) -> None:
    store.put(f"{BASE}/step-2-1/layout.json", data)
    digest = hashlib.sha256(data).hexdigest()
    forge(store, files=(CheckpointFile(name="layout.json", size_bytes=len(data), sha256=digest),))


def test_plain_files_and_foreign_folders_beside_the_checkpoints(saved: ObjectStore, tmp_path: Path) -> None:
    folder = Path(saved.url.removeprefix("file://")) / BASE
    (folder / "step-40-1").write_text("somebody's notes")
    (folder / "step-99999999999999999999-1").mkdir()
    (folder / "step-99999999999999999999-1" / "COMMIT.json").write_text("{}")
    loader = checkpointer(saved, tmp_path / "loader", attempt=2)
    found = loader.newest()
    assert found is not None
    assert found.step == 2
    assert loader.skipped == []


def test_an_attempt_that_comes_again_saves_beside_its_own_damaged_commit(saved: ObjectStore, tmp_path: Path) -> None:
    saved.put(f"{BASE}/step-2-1/COMMIT.json", b"half of")
    again = checkpointer(saved, tmp_path / "again")
    found = again.newest()
    assert found is not None
    for step in (2, 3):
        again.save({**STATE, "large": STATE["large"] + step}, step=step)
    again.settle()
    assert again.last_step == 3
