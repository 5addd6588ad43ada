"""The plan: which offer, which layout, what it will cost, and what was rejected for which reason."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from include.core.contracts.offer import Offer


class Criticality(StrEnum):
    """How much a late run hurts; drives ``purchase: auto``."""

    EXPLORATORY = "exploratory"
    NORMAL = "normal"
    CRITICAL = "critical"


class Objective(StrEnum):
    """What the planner minimises."""

    COST = "cost"
    TIME = "time"
    CARBON = "carbon"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How the model is spread over workers. This release trains on one worker.

    Attributes:
        replicate: Data-parallel replicas.
        shard: Shards of parameters and optimizer state.
        tensor: Tensor-parallel ranks.
        precision: ``fp32`` or ``bf16``.
        micro_batch: Samples per forward pass and worker.
        accumulation: Forward passes per optimizer step.
        activation_checkpointing: Whether activations are recomputed in the backward pass.
        offload: Whether optimizer state lives in host memory.
    """

    replicate: int = 1
    shard: int = 1
    tensor: int = 1
    precision: str = "fp32"
    micro_batch: int = 1
    accumulation: int = 1
    activation_checkpointing: bool = False
    offload: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What a plan is expected to take. Unknown is None, never 0.

    Attributes:
        time_s: Wall time of the training, in seconds.
        usd: Expected cost in US dollars.
        kwh: Expected energy in kilowatt-hours.
        gco2e: Expected carbon in grams of CO2 equivalent.
        peak_device_bytes: Peak device memory, with margin.
        method: How the figures came about.
    """

    time_s: float | None
    usd: float | None
    kwh: float | None
    gco2e: float | None
    peak_device_bytes: int
    method: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedOffer:
    """One alternative: an offer with its prediction, or with the reason why it was rejected."""

    offer: Offer
    prediction: Prediction | None
    rejected: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The planner's answer.

    Attributes:
        offer: The chosen offer.
        layout: How the training runs on it.
        prediction: Expected time, cost, energy and carbon.
        checkpoint_every_steps: Checkpoint interval in optimizer steps.
        objective: What was minimised.
        rule: Which rule decided spot or on-demand, in one sentence.
        alternatives: All other offers, best first, then the rejected ones with their reasons.
        naive: The choice without sizing: the largest accelerator type on demand; None without a priced one.
    """

    offer: Offer
    layout: Layout
    prediction: Prediction
    checkpoint_every_steps: int
    objective: Objective
    rule: str
    alternatives: tuple[RankedOffer, ...]
    naive: RankedOffer | None
