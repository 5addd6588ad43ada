"""Training on data that does not fit into memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch

from include.config.job_messages import TrainResult
from include.config.settings import Settings
from include.core.contracts.dataset import DatasetManifest, DatasetRef
from include.core.errors import DataError, UserError
from include.core.store import ObjectStore
from include.data import prepare
from include.data.manifest import read_manifest
from include.data.prepare import prepare_dataset
from include.training.batches import BatchSource, MemorySource
from include.training.outcome import WorkerOutcome
from include.training.stream_source import StreamSource, bytes_in_memory, open_source
from tests.support.streamed import tar_set
from tests.support.tables import section
from tests.support.training import tiny_workload, train_request
from tests.support.training_attempt import Attempt as ForkedAttempt

Attempt = Callable[..., WorkerOutcome]
STREAMED = {"stream_above_bytes": 0, "loader_workers": 1}


@pytest.fixture
def dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[ObjectStore], DatasetRef]:
    """``dataset(store)``: two clouds of points with a gap between them, prepared in many small shards."""
    random = np.random.default_rng(4)
    (tmp_path / "data").mkdir()
    lines = ["a,b,c,kind"]
    for number in range(240):
        a, b, c = random.normal(size=3) + (2 if number % 2 else -2)
        lines.append(f"{a:.4f},{b:.4f},{c:.4f},{'xy'[number % 2]}")
    (tmp_path / "data" / "points.csv").write_text("\n".join(lines))
    monkeypatch.setattr(prepare, "MOST_ROWS_PER_SHARD", 13)

    def make(store: ObjectStore) -> DatasetRef:
        return prepare_dataset(store=store, data=section("points.csv", label="kind"), roots=(tmp_path / "data",)).ref

    return make


def opened(store: ObjectStore, manifest: DatasetManifest, settings: Settings, split: str = "train") -> BatchSource:
    return open_source(store, manifest, split, seed=1, settings=settings, device=torch.device("cpu"))


def finished(outcome: WorkerOutcome) -> TrainResult:
    assert outcome.status == "done", outcome.message
    assert outcome.result is not None
    return outcome.result


def test_the_budget_decides_between_memory_and_stream(
    any_store: ObjectStore, dataset: Callable[[ObjectStore], DatasetRef], settings_for: Callable[..., Settings]
) -> None:
    manifest = read_manifest(any_store, dataset(any_store).uri)
    size = bytes_in_memory(manifest, "train")
    memory = opened(any_store, manifest, settings_for(any_store, stream_above_bytes=size))
    stream = opened(any_store, manifest, settings_for(any_store, stream_above_bytes=size - 1, loader_workers=0))
    assert isinstance(memory, MemorySource)
    assert isinstance(stream, StreamSource)
    rows = memory.rows
    assert size == rows * (3 * 4 + 8)
    assert (stream.rows, stream.steps_per_epoch(32)) == (rows, memory.steps_per_epoch(32))

    def epoch(source: BatchSource) -> list[tuple[float, ...]]:
        batches = islice(source.batches(offset=0, batch_size=32, rank=0, world=1), source.steps_per_epoch(32))
        return [
            (*inputs, target)
            for b in batches
            for inputs, target in zip(b.inputs.tolist(), b.targets.tolist(), strict=True)
        ]

    assert epoch(memory) != epoch(stream)
    assert sorted(epoch(memory)) == sorted(epoch(stream))


def test_pictures_become_what_a_model_takes(file_store: ObjectStore, settings_for: Callable[..., Settings]) -> None:
    source = opened(file_store, tar_set(file_store), settings_for(file_store, loader_workers=0))
    batch = next(source.batches(offset=0, batch_size=8, rank=0, world=1))
    assert batch.inputs.shape == (8, 3, 8, 8)
    assert batch.inputs.dtype == torch.float32
    assert torch.allclose(batch.inputs.mean(dim=(1, 2, 3)) * 255, 2.0 * batch.targets, atol=2)


def test_an_empty_split_is_refused(file_store: ObjectStore, settings_for: Callable[..., Settings]) -> None:
    with pytest.raises(DataError, match="no rows"):
        opened(file_store, tar_set(file_store), settings_for(file_store), split="validation")


def test_skipped_shards_are_counted(
    file_store: ObjectStore,
    dataset: Callable[[ObjectStore], DatasetRef],
    settings_for: Callable[..., Settings],
    caplog: pytest.LogCaptureFixture,
) -> None:
    manifest = read_manifest(file_store, dataset(file_store).uri)
    lost = next(shard for shard in manifest.shards if shard.split == "train")
    file_store.put(lost.key, b"broken")
    settings = settings_for(file_store, stream_above_bytes=0, loader_workers=1, skip_bad_shards=True)
    source = opened(file_store, manifest, settings)
    assert isinstance(source, StreamSource)
    seen = sum(
        len(b.targets)
        for b in islice(source.batches(offset=0, batch_size=16, rank=0, world=1), source.steps_per_epoch(16))
    )
    assert seen == source.rows
    assert list(source.skipped) == [lost.key]
    assert f"1 shards with {lost.rows} rows are skipped" in caplog.text


def test_a_training_without_a_shard_says_how_many_rows_it_lacked(
    file_store: ObjectStore, dataset: Callable[[ObjectStore], DatasetRef], attempt: Attempt
) -> None:
    ref = dataset(file_store)
    lost = [shard for shard in read_manifest(file_store, ref.uri).shards if shard.split == "train"][3]
    file_store.delete(lost.key)
    request = train_request(ref, order=tiny_workload(epochs=1))
    result = finished(attempt(request, file_store, **STREAMED, skip_bad_shards=True))
    assert result.metrics["skipped_rows"] == lost.rows


def test_a_truncated_shard_ends_the_training_with_its_name(
    file_store: ObjectStore, dataset: Callable[[ObjectStore], DatasetRef], attempt: Attempt
) -> None:
    ref = dataset(file_store)
    lost = [shard for shard in read_manifest(file_store, ref.uri).shards if shard.split == "train"][3]
    whole = file_store.get(lost.key)
    assert whole is not None
    file_store.put(lost.key, whole[:-100])
    with pytest.raises(DataError, match=lost.key) as caught:
        attempt(train_request(ref, order=tiny_workload()), file_store, **STREAMED)
    assert f"{lost.size_bytes - 100} bytes" in str(caught.value)
    assert lost.sha256 in str(caught.value)


def test_a_streamed_training_learns_as_well_and_resumes_bit_for_bit(
    any_store: ObjectStore, dataset: Callable[[ObjectStore], DatasetRef], attempt: Attempt, tmp_path: Path
) -> None:
    order = tiny_workload(epochs=4)
    whole = finished(attempt(train_request(dataset(any_store), order=order), any_store, **STREAMED))
    in_memory = ObjectStore(f"file://{tmp_path}/memory")
    assert whole.metrics["validation_accuracy"] > 0.95
    reference = finished(attempt(train_request(dataset(in_memory), order=order), in_memory))
    assert abs(whole.metrics["validation_accuracy"] - reference.metrics["validation_accuracy"]) < 0.06
    for number, steps in ((1, 3), (2, 4)):
        request = train_request(dataset(any_store), order=order, attempt=number, run_id="broken")
        assert attempt(request, any_store, steps, **STREAMED).status == "preempted"
    request = train_request(dataset(any_store), order=order, attempt=3, run_id="broken")
    # Rows in memory come in another order: an offset of the one means nothing in the other.
    with pytest.raises(UserError, match=r"same rows in another order.*PLIMSOLL_STREAM_ABOVE_BYTES"):
        attempt(request, any_store)
    # Whoever reads, and with how many processes, makes no difference.
    resumed = finished(attempt(request, any_store, stream_above_bytes=0, loader_workers=0))
    assert resumed.resumed_step == 7
    assert resumed.weights_digest == whole.weights_digest


def test_a_killed_streamed_training_resumes_bit_for_bit_and_leaves_no_process(
    file_store: ObjectStore,
    dataset: Callable[[ObjectStore], DatasetRef],
    settings_for: Callable[..., Settings],
    tmp_path: Path,
) -> None:
    order = tiny_workload(epochs=30, checkpoint_every_steps=20)
    ref, settings = dataset(file_store), settings_for(file_store, **STREAMED)

    def started(run_id: str, number: int) -> ForkedAttempt:
        request = train_request(ref, order=order, attempt=number, run_id=run_id)
        folder = tmp_path / f"{run_id}-{number}"
        return ForkedAttempt(request, store=file_store, job_dir=folder, settings=settings)

    killed = started("killed", 1)
    while killed.process.is_alive() and killed.account()["committed_step"] == 0:
        time.sleep(0.001)
    loaders = psutil.Process(killed.process.pid).children()
    assert any("include.data.stream.worker" in loader.cmdline() for loader in loaders)
    killed.kill()
    assert psutil.wait_procs(loaders, timeout=10)[1] == []
    resumed = finished(started("killed", 2).finish())
    straight = finished(started("straight", 1).finish())
    assert 0 < resumed.resumed_step < resumed.steps
    assert resumed.weights_digest == straight.weights_digest
    assert resumed.metrics == straight.metrics
