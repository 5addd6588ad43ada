"""Steps, bytes and the demand as a whole."""

from __future__ import annotations

import pytest
from torch import nn

from include.config.workload import TrainingSection
from include.core.contracts.dataset import DatasetManifest, Shard
from include.parallel.layout import Execution
from include.sizing.demand import Surroundings, estimate_demand
from include.sizing.demand_data import DataSize, data_size, total_steps
from include.sizing.trace import StepShape


@pytest.mark.parametrize(("rows", "batch", "epochs", "steps"), [(100, 32, 3, 12), (96, 32, 3, 9), (1, 64, 5, 5)])
def test_a_short_last_batch_is_a_step(rows, batch, epochs, steps):
    assert total_steps(rows=rows, training=TrainingSection(epochs=epochs, batch_size=batch)) == steps


def test_data_size_counts_training_and_validation_in_memory_and_all_shards_on_disk():
    rows = {"train": 70, "validation": 10, "test": 20}
    shards = tuple(
        Shard(key=split, split=split, rows=count, size_bytes=1000, sha256="") for split, count in rows.items()
    )
    manifest = DatasetManifest(
        fingerprint="x", task="classification", label="y", classes=("a", "b"), features=(), input_shape=(3, 2, 2),
        shards=shards,
    )  # fmt: skip
    assert data_size(manifest) == DataSize(
        rows=70, encoded_bytes=80 * (12 * 4 + 8), stored_bytes=3000, sample_bytes=12 * 4 + 8
    )


def test_the_demand_of_a_small_model():
    parameters = 64 * 10 + 10
    shape = StepShape(
        build=lambda: nn.Linear(64, 10),
        input_shape=(64,),
        classes=10,
        batch=32,
        optimizer="adamw",
        execution=Execution(micro_batch=16, precision="fp32"),
    )
    data = DataSize(rows=100, encoded_bytes=5_000, stored_bytes=7_000, sample_bytes=64 * 4 + 8)
    training = TrainingSection(epochs=2, batch_size=32)
    around = Surroundings(family="linear", threads=1, most_memory_bytes=2**30, loader_samples_per_core_s=99.0)
    demand = estimate_demand(shape, training=training, data=data, surroundings=around)
    assert demand.steps == 8
    assert (demand.micro_batch, demand.vcpus, demand.parameters) == (16, 1, parameters)
    # no gradient reaches the input: 2 x forward
    assert demand.flop_per_sample == 2 * 2 * 64 * 10
    states = 4 * parameters + (2 * 4 * parameters + 2 * 4)
    assert demand.disk_bytes == 7_000 + 3 * states
    assert demand.checkpoint_bytes == states
    assert demand.cpu_s_per_step > 0
    assert (demand.family, demand.loader_samples_per_core_s, demand.sample_bytes) == ("linear", 99.0, 264)
    assert demand.tensor_bytes_per_sample is None
    for word in ("estimated", "measured", "counted", "median of 20 real steps on random data after 5 warm ones"):
        assert word in demand.method
