"""How fast one core reads and decodes the prepared data, on the road that training takes."""

from __future__ import annotations

import time
from pathlib import Path

from include.core.contracts.dataset import DatasetManifest
from include.data.stream.dataset import StreamDataset
from include.data.stream.loading import StreamPlan

ENOUGH_CPU_S = 0.5


def loader_samples_per_core_s(
    manifest: DatasetManifest, *, store: str, cache: Path, cache_bytes: int, batch_size: int, seed: int
) -> float:
    """Samples per CPU second of one core: shards are read, decoded and put into batches.

    Args:
        manifest: The prepared data.
        store: Root URL of the store.
        cache: Folder of fetched shards.
        cache_bytes: Its budget.
        batch_size: Rows of a batch.
        seed: Seed of the order.

    Returns:
        Rows of whole batches over the CPU seconds of this process, until one epoch or `ENOUGH_CPU_S` is over.
    """
    plan = StreamPlan(store=store, manifest=manifest, split="train", seed=seed, cache=cache, cache_bytes=cache_bytes)
    _read(plan, batch_size, enough_cpu_s=0.0)  # the first batch pays for imports and for fetching its shards
    return _read(plan, batch_size, enough_cpu_s=ENOUGH_CPU_S)


def _read(plan: StreamPlan, batch_size: int, *, enough_cpu_s: float) -> float:
    dataset = StreamDataset(plan)
    rows, started = 0, time.process_time()
    for batch in dataset.batches(offset=0, batch_size=batch_size):
        rows += batch.rows_global
        if rows >= dataset.rows or time.process_time() - started > enough_cpu_s:
            break
    return rows / max(time.process_time() - started, 1e-6)
