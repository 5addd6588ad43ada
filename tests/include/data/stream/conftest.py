"""Plans of streams with caches of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from include.core.contracts.dataset import DatasetManifest
from include.core.store import ObjectStore
from include.data.stream.loading import StreamPlan


@pytest.fixture
def plan_of(tmp_path: Path) -> Callable[..., StreamPlan]:
    """``plan_of(store, manifest, **more)``: a plan with a cache of its own."""

    def build(store: ObjectStore, manifest: DatasetManifest, **more: Any) -> StreamPlan:
        values = {"split": "train", "seed": 1, "cache": tmp_path / "cache", "cache_bytes": 2**24, "block_shards": 2}
        return StreamPlan(store=store.url, manifest=manifest, **{**values, **more})

    return build
