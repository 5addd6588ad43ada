"""Batches for the loop from wherever the split fits: from memory, or streamed from its shards."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator

import numpy as np
import torch

from include.config.settings import Settings
from include.core.contracts.dataset import DatasetManifest
from include.core.store import ObjectStore
from include.data.stream.dataset import StreamDataset, StreamedBatch
from include.data.stream.loading import StreamPlan
from include.training.batches import Batch, BatchSource, MemorySource
from include.training.examples import load_examples

_log = logging.getLogger("plimsoll.train")
_FLOAT_BYTES, _LABEL_BYTES = 4, 8
# The same division as where a whole split is encoded at once: both roads give the same numbers.
_PIXEL_MAX = 255.0


class StreamSource:
    """Batches of a streamed split, in the memory of the CPU.

    Args:
        dataset: The stream.

    Attributes:
        rows: Rows of one epoch.
    """

    def __init__(self, dataset: StreamDataset) -> None:
        self._dataset = dataset
        self._format = dataset.plan.format
        self.rows = dataset.rows

    @property
    def skipped(self) -> dict[str, str]:
        """Key of each shard that was passed over, and why."""
        return self._dataset.skipped

    @property
    def skipped_rows(self) -> int:
        """Rows of the shards that were passed over; rows of their blocks stood in for them in each epoch."""
        return sum(shard.rows for shard in self._dataset.plan.shards if shard.key in self.skipped)

    def queue_depth(self) -> int | None:
        """Batches that are ready, None where the loop itself loads them."""
        return self._dataset.queue_depth()

    def steps_per_epoch(self, batch_size: int) -> int:
        """Optimizer steps per pass over the data."""
        return math.ceil(self.rows / batch_size)

    def batches(self, *, offset: int, batch_size: int, rank: int, world: int) -> Iterator[Batch]:
        """See `BatchSource`.

        Raises:
            DataError: A shard is missing or damaged; the message names it.
        """
        told = 0
        for streamed in self._dataset.batches(offset=offset, batch_size=batch_size, rank=rank, world=world):
            yield self._batch(streamed)
            if len(self.skipped) > told:
                told = len(self.skipped)
                _log.warning("%d shards with %d rows are skipped: %s", told, self.skipped_rows, sorted(self.skipped))

    def _batch(self, streamed: StreamedBatch) -> Batch:
        # Copies: the next batch is written into the same memory.
        inputs = torch.from_numpy(streamed.inputs.astype(np.float32))
        if self._format.dtype == "uint8":
            inputs /= _PIXEL_MAX
        if self._format.channels_last:
            inputs = inputs.permute(0, 3, 1, 2).contiguous()
        targets = torch.from_numpy(streamed.targets.copy())
        return Batch(inputs=inputs, targets=targets, rows_global=streamed.rows_global)


def bytes_in_memory(manifest: DatasetManifest, split: str) -> int:
    """What a split takes when it is encoded as a whole: computed from its rows and the shape of one."""
    rows = sum(shard.rows for shard in manifest.shards if shard.split == split)
    return rows * (math.prod(manifest.input_shape) * _FLOAT_BYTES + _LABEL_BYTES)


def open_source(
    store: ObjectStore,
    manifest: DatasetManifest,
    split: str,
    *,
    seed: int,
    settings: Settings,
    device: torch.device,
) -> BatchSource:
    """The split as batches: in the device's memory when it fits the budget, streamed otherwise.

    Args:
        store: The object store.
        manifest: The dataset.
        split: ``train``, ``validation`` or ``test``.
        seed: Seed of the order.
        settings: Memory budget, cache and number of loader processes.
        device: Where rows in memory are kept; streamed batches are in the memory of the CPU.

    Raises:
        DataError: The split has no rows, or a shard that is read at once is missing or damaged.
    """
    size = bytes_in_memory(manifest, split)
    in_tars = any(shard.key.endswith(".tar") for shard in manifest.shards)
    if size <= settings.stream_above_bytes and not in_tars:
        return MemorySource(load_examples(store, manifest, split, device=device), seed=seed)
    plan = StreamPlan(
        store=store.url,
        manifest=manifest,
        split=split,
        seed=seed,
        cache=settings.work_root / "shards",
        cache_bytes=settings.shard_cache_bytes,
        skip_bad=settings.skip_bad_shards,
    )
    _log.info(
        "the %s split is streamed by %d loader processes: %d bytes in memory, allowed %d",
        split,
        settings.loader_workers,
        size,
        settings.stream_above_bytes,
    )
    return StreamSource(StreamDataset(plan, workers=settings.loader_workers))
