"""Four workers make of the same batches what one makes of them, however the mesh is cut."""

from __future__ import annotations

from typing import Any

import pytest

from include.core.contracts.plan import Layout
from include.core.json_codec import to_json
from tests.support.layout_runs import losses, many
from tests.support.preloaded import run_workers

# Sums in another order, and products cut in two: fp32 differs in the last places and no further in four steps.
TOLERANCE = 1e-5
# Gradients that travel in bf16 keep eight bits.
TOLERANCE_BF16 = 1e-2

SPREAD = {
    "replicas": {"replicate": 4, "micro_batch": 2, "accumulation": 2},
    "shards": {"shard": 4, "micro_batch": 3, "accumulation": 1},
    "hybrid 2x2": {"replicate": 2, "shard": 2, "micro_batch": 2, "accumulation": 2},
    "tensor 2 of 2 replicas": {"replicate": 2, "tensor": 2, "micro_batch": 5, "accumulation": 1},
    "tensor 2 of 2 shards": {"shard": 2, "tensor": 2, "micro_batch": 3, "accumulation": 2},
    "shards, recomputed": {
        "shard": 4, "micro_batch": 3, "accumulation": 1, "activation_checkpointing": "block",
    },
    "shards, offloaded": {"shard": 4, "micro_batch": 3, "accumulation": 1, "offload": True},
}  # fmt: skip
CASES = [(model, name, {}) for model in ("mlp", "transformer") for name in SPREAD]
BF16_CASES = [("transformer", name, {"reduce_precision": "bf16"}) for name in ("replicas", "shards")]


@pytest.fixture(scope="module")
def spread() -> list[list[tuple[list[float], str]]]:
    """Every case on each of four workers."""
    cases = [(m, to_json(Layout(**SPREAD[name])), options) for m, name, options in (*CASES, *BF16_CASES)]
    return run_workers(4, many, cases)


@pytest.fixture(scope="module")
def alone() -> dict[str, list[float]]:
    return {model: losses(model, Layout(micro_batch=10))[0] for model in ("mlp", "transformer")}


@pytest.mark.integration
@pytest.mark.parametrize(("number", "case"), list(enumerate((*CASES, *BF16_CASES))), ids=str)
def test_loss_is_that_of_one_worker_and_weights_are_the_same_on_all(
    number: int, case: tuple[str, str, dict[str, Any]], spread: Any, alone: dict[str, list[float]]
) -> None:
    model, _, options = case
    tolerance = TOLERANCE_BF16 if options else TOLERANCE
    for worker in spread:
        assert worker[number][0] == pytest.approx(alone[model], rel=tolerance)
        assert worker[number][1] == spread[0][number][1]


@pytest.mark.parametrize("how", ["block", "selective"])
def test_recomputation_changes_no_bit(how: str) -> None:
    for model in ("mlp", "transformer"):
        assert losses(model, Layout(micro_batch=5, accumulation=2, activation_checkpointing=how)) == losses(
            model, Layout(micro_batch=5, accumulation=2)
        )
