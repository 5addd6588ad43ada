"""The rows of a dataset as tensors on the training device."""

from __future__ import annotations

import torch

from include.core.contracts.dataset import DatasetManifest
from include.core.errors import DataError
from include.core.store import ObjectStore
from include.data.encoding import load_split
from include.training.batches import Examples


def load_examples(store: ObjectStore, manifest: DatasetManifest, split: str, *, device: torch.device) -> Examples:
    """Read and encode one split.

    Raises:
        DataError: The split has no rows.
    """
    if not any(shard.split == split and shard.rows > 0 for shard in manifest.shards):
        raise DataError("a split has no rows", where=f"datasets/{manifest.fingerprint}", found=split)
    inputs, labels = load_split(store, manifest, split)
    return Examples(inputs=torch.from_numpy(inputs).to(device), labels=torch.from_numpy(labels).to(device))
