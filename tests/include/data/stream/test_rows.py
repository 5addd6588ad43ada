"""Prepared shards give in a stream exactly what they give in memory."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from include.core.store import ObjectStore
from include.data import prepare
from include.data.encoding import load_split
from include.data.prepare import prepare_dataset
from include.data.stream.dataset import StreamDataset
from include.data.stream.loading import StreamPlan
from tests.support.tables import section, write_pictures

PlanOf = Callable[..., StreamPlan]


def table_file(folder: Path) -> str:
    random = np.random.default_rng(1)
    lines = ["size,colour,kind"]
    lines += [f"{random.normal():.4f},{random.choice(['red', 'blue', ''])},{'ab'[n % 2]}" for n in range(300)]
    (folder / "t.csv").write_text("\n".join(lines))
    return "t.csv"


@pytest.mark.parametrize("kind", ["table", "pictures"])
def test_streamed_rows_equal_those_in_memory(
    kind: str, tmp_path: Path, any_store: ObjectStore, plan_of: PlanOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare, "MOST_ROWS_PER_SHARD", 11)
    if kind == "table":
        data = section(table_file(tmp_path), label="kind", max_duplicate_share=1.0)
    else:
        write_pictures(tmp_path / "tree", per_class=40)
        data = section("tree", label="animal")
    manifest = prepare_dataset(store=any_store, data=data, roots=(tmp_path,)).manifest
    inputs, labels = load_split(any_store, manifest, "train")
    plan = plan_of(any_store, manifest)
    starts = np.cumsum([0] + [shard.rows for shard in plan.shards])
    shards, rows = plan.order().rows_at(0, 0, len(labels))
    assert len(plan.shards) > 3
    expected = starts[shards] + rows
    stream = StreamDataset(plan).batches(offset=0, batch_size=10)
    with closing(stream):
        at = 0
        for batch in islice(stream, -(-len(labels) // 10)):
            mine = expected[at : at + 10]
            found = batch.inputs if kind == "table" else batch.inputs.astype(np.float32) / np.float32(255)
            assert np.array_equal(found, inputs[mine])
            assert np.array_equal(batch.targets, labels[mine])
            at += len(mine)
    assert at == len(labels)
