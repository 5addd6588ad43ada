"""A training with frozen layers, through the session: their weights are in the store once, over steps and attempts."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import safetensors.torch

from include.core.store import ObjectStore
from include.training.outcome import WorkerOutcome
from tests.support.training import tiny_workload, train_request, write_dataset


@pytest.mark.usefixtures("quick_saves")
def test_frozen_layers_are_stored_once_over_all_attempts(
    file_store: ObjectStore, attempt: Callable[..., WorkerOutcome]
) -> None:
    # The first layer is small, the second one large enough for a blob of its own; both are frozen.
    order = tiny_workload(hidden=(300, 300), freeze=["1.*", "4.*"], checkpoint_every_steps=4)
    dataset = write_dataset(file_store)
    assert attempt(train_request(dataset, order=order), file_store, 6).status == "preempted"
    assert attempt(train_request(dataset, order=order, attempt=2), file_store).status == "done"
    base = f"{train_request(dataset, order=order).run_prefix}/checkpoints"
    holders: dict[str, int] = {}
    for key, _ in file_store.list(f"{base}/blobs"):
        data = file_store.get(key)
        assert data is not None
        for name in safetensors.torch.load(data):
            holders[name] = holders.get(name, 0) + 1
    commits = [key for key, _ in file_store.list(base) if key.endswith("COMMIT.json")]
    assert len(commits) == 4
    assert {name: holders[name] for name in holders if name.startswith(("model.1.", "model.4."))} == {
        "model.1.weight": 1,
        "model.1.bias": 1,
        "model.4.weight": 1,
        "model.4.bias": 1,
    }
    assert holders["model.7.weight"] == len(commits)
    assert not [name for name in holders if name.startswith(("optimizer.state.1.", "optimizer.state.4."))]
