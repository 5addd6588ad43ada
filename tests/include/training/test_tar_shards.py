"""A training on WebDataset archives where they are, on files and on S3."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from include.core.errors import DataError, UserError
from include.core.store import ObjectStore
from include.training.outcome import WorkerOutcome
from include.training.tasks import tar_shards
from tests.support.streamed import SIDE, jpeg, tar
from tests.support.training import CNN, tiny_workload, train_request

Attempt = Callable[..., WorkerOutcome]
TONES = {"dark": 20, "light": 110}


def put_set(store: ObjectStore, prefix: str, *, shards: int, rows: int, classes: dict[str, int] = TONES) -> None:
    for number in range(shards):
        members = []
        for row in range(rows):
            name, tone = list(classes.items())[row % len(classes)]
            key = f"{number}-{row:03d}"
            members += [(f"{key}.jpg", jpeg(tone + row % 5)), (f"{key}.cls", name.encode())]
        store.put(f"{prefix}/{number:03d}.tar", tar(members))


def order(root: str, **more: Any) -> Any:
    arguments = {"train": f"{root}/learn", "validation": f"{root}/check", "size": SIDE}
    path = "include.training.tasks.tar_shards:archives"
    settings = {"epochs": 6, "batch_size": 16, "lr": 0.02, **more}
    return tiny_workload(model=CNN, data=path, data_arguments=arguments, **settings)


@pytest.fixture
def root(any_store: ObjectStore) -> str:
    put_set(any_store, "pets/learn", shards=5, rows=16)
    put_set(any_store, "pets/check", shards=2, rows=8)
    return any_store.uri("pets")


def test_archives_are_trained_on_where_they_are_with_exact_resume(
    root: str, any_store: ObjectStore, attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    straight = attempt(train_request(None, order=order(root)), any_store, loader_workers=1)
    assert straight.result is not None
    assert straight.result.steps == 6 * 5
    assert straight.result.metrics["validation_accuracy"] > 0.95
    # The sets are described once: later attempts read the description.
    monkeypatch.setattr(tar_shards, "describe_tar_set", None)
    for number, steps in ((1, 7), (2, 9)):
        request = train_request(None, order=order(root), attempt=number, run_id="broken")
        assert attempt(request, any_store, steps, loader_workers=0).status == "preempted"
    request = train_request(None, order=order(root), attempt=3, run_id="broken")
    resumed = attempt(request, any_store, loader_workers=0).result
    assert resumed is not None
    assert resumed.resumed_step == 16
    assert resumed.weights_digest == straight.result.weights_digest


def test_a_set_that_changed_is_described_again_and_is_other_data(file_store: ObjectStore, attempt: Attempt) -> None:
    put_set(file_store, "pets/learn", shards=5, rows=16)
    put_set(file_store, "pets/check", shards=2, rows=8)
    root = file_store.uri("pets")
    attempt(train_request(None, order=order(root)), file_store, 3)
    put_set(file_store, "pets/learn", shards=6, rows=16)
    with pytest.raises(UserError, match="other data"):
        attempt(train_request(None, order=order(root), attempt=2), file_store)


def test_sets_that_cannot_be_used_are_refused(file_store: ObjectStore, attempt: Attempt, tmp_path: Path) -> None:
    put_set(file_store, "pets/learn", shards=2, rows=8)
    put_set(file_store, "pets/check", shards=1, rows=8, classes={"dark": 20, "pink": 90})
    with pytest.raises(DataError, match=r"classes that the training set does not have.*pink.*dark, light"):
        attempt(train_request(None, order=order(file_store.uri("pets"))), file_store)
    (tmp_path / "outside").mkdir()
    with pytest.raises(DataError, match="outside the data roots"):
        attempt(train_request(None, order=order(f"{tmp_path}/outside")), file_store)
    with pytest.raises(DataError, match="no such file"):
        attempt(train_request(None, order=order(file_store.uri("absent"))), file_store)
