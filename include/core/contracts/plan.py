"""The plan: which offer, which layout, what it will cost, and what was rejected for which reason."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from include.core.contracts.offer import Offer

Recompute = Literal["off", "block", "selective"]


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
    WEIGHTED = "weighted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How the model is spread over workers: replicate x shard x tensor of them.

    Attributes:
        replicate: Data-parallel replicas.
        shard: Shards of parameters, gradients and optimizer state.
        tensor: Tensor-parallel ranks.
        pipeline: Pipeline stages; more than 1 is refused.
        precision: ``fp32``, ``bf16`` or ``fp16``.
        micro_batch: Samples per forward pass and worker.
        accumulation: Forward passes per optimizer step.
        activation_checkpointing: What is recomputed in the backward pass: nothing, whole blocks, or in each block all
            but the matrix products.
        offload: Whether parameters and optimizer state live in host memory.
    """

    replicate: int = 1
    shard: int = 1
    tensor: int = 1
    pipeline: int = 1
    precision: str = "fp32"
    micro_batch: int = 1
    accumulation: int = 1
    activation_checkpointing: Recompute = "off"
    offload: bool = False

    @property
    def data_parallel(self) -> int:
        """Workers among which a batch is divided."""
        return self.replicate * self.shard

    @property
    def workers(self) -> int:
        """All workers."""
        return self.replicate * self.shard * self.tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What a plan is expected to take. Unknown is None, never 0.

    Attributes:
        time_s: Wall time of the training, in seconds.
        usd: Expected cost in US dollars.
        kwh: Expected energy in kilowatt-hours.
        gco2e: Expected carbon in grams of CO2 equivalent.
        peak_device_bytes: Peak memory of one device, with margin; without an accelerator that of the tensors, which are
            part of the host's memory.
        method: How the figures came about.
        step_s: Seconds of one step before anything learned from earlier runs went in, None where unknown: what a
            measured step is held against.
        traced_peak_bytes: Peak of the training's own tensors on one device, without margin and before anything learned
            went in, None where unknown: what a measured peak is held against.
        step_parts: Seconds of a step by what takes them: ``device``, ``communication``, ``offload`` add up, ``data``
            goes on beside them; empty where unknown.
        interruptions: Interruptions that are expected over the whole training, None where unknown.
        time_parts: Wall seconds by what takes them: ``start``, ``steps``, ``validation``, ``saves``,
            ``interruptions`` (the expected loss to them) add up; empty where unknown.
        host_bytes: Memory of the host that the workers of one instance take, None where unknown.
        grid: The grid's figure that carbon is computed with, what it is an average of, its year and its source; None
            where carbon is unknown.
    """

    time_s: float | None
    usd: float | None
    kwh: float | None
    gco2e: float | None
    peak_device_bytes: int
    method: str
    step_s: float | None = None
    traced_peak_bytes: int | None = None
    step_parts: dict[str, float] = field(default_factory=dict)
    interruptions: float | None = None
    time_parts: dict[str, float] = field(default_factory=dict)
    host_bytes: int | None = None
    grid: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedOffer:
    """One alternative: an offer with its prediction, or with the reason why it was rejected.

    Attributes:
        offer: The offer.
        prediction: What the training would take on it, None where unknown.
        rejected: Why it may not be chosen, None where it may.
        layout: The best layout on it, None where none fits.
        instances: Instances of it.
    """

    offer: Offer
    prediction: Prediction | None
    rejected: str | None
    layout: Layout | None = None
    instances: int = 1


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
        naive: The choice without sizing: the largest accelerator type on demand in the regions, families and quota that
            the workload may use; None without a priced one. ``rejected`` names the limits that it breaks.
        interruptions_per_h: Assumed for the chosen offer; None where nobody said.
        fallback_layouts: What to try, in this order, when the layout runs out of memory all the same.
        instances: Instances of the offer.
        front: Plans that keep all limits, on whatever engine, and that no other one beats in time, cost and carbon
            together; the chosen one included.
        anywhere: The best plan were every engine configured; None where that is the chosen one.
        fallback_offer: On-demand twin of a spot offer, at whose price the rest runs when no spot capacity comes back.
        remarks: What a reader would not expect, for example prices that reverse the usual order of accelerators.
    """

    offer: Offer
    layout: Layout
    prediction: Prediction
    checkpoint_every_steps: int
    objective: Objective
    rule: str
    alternatives: tuple[RankedOffer, ...]
    naive: RankedOffer | None
    interruptions_per_h: float | None = None
    fallback_layouts: tuple[Layout, ...] = ()
    instances: int = 1
    front: tuple[RankedOffer, ...] = ()
    anywhere: RankedOffer | None = None
    fallback_offer: str | None = None
    remarks: tuple[str, ...] = ()
