"""What the data of a training takes, from its manifest alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

from include.config.training_section import TrainingSection
from include.core.contracts.dataset import DatasetManifest

_FLOAT32_BYTES = 4
_INT64_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSize:
    """What the data takes.

    Attributes:
        rows: Rows of the training split.
        encoded_bytes: All rows of training and validation as tensors in memory.
        stored_bytes: All shards on disk.
        sample_bytes: One row with its label, as it goes to the device.
    """

    rows: int
    encoded_bytes: int
    stored_bytes: int
    sample_bytes: int


def data_size(manifest: DatasetManifest) -> DataSize:
    """Rows and bytes of a prepared dataset."""
    rows = {split: sum(s.rows for s in manifest.shards if s.split == split) for split in ("train", "validation")}
    row_bytes = math.prod(manifest.input_shape) * _FLOAT32_BYTES + _INT64_BYTES
    return DataSize(
        rows=rows["train"],
        encoded_bytes=sum(rows.values()) * row_bytes,
        stored_bytes=sum(shard.size_bytes for shard in manifest.shards),
        sample_bytes=row_bytes,
    )


def total_steps(*, rows: int, training: TrainingSection) -> int:
    """Optimizer steps of the whole training; the last batch of an epoch may be short."""
    return training.total_steps(math.ceil(rows / training.batch_size))
