"""What the training would take on so many instances of one offer. Pure.

Everything here rises with the time of a step: that is what lets the planner look at the fastest layout alone. Hence the
interval between checkpoints enters as seconds, not as the whole number of steps that is run in the end.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from include.carbon.energy import J_PER_KWH, exclusive_joules, gco2e_of, shared_joules
from include.config.workload import Workload
from include.core.contracts.correction import Correction
from include.core.contracts.demand import Demand
from include.core.contracts.offer import Offer, PurchaseOption
from include.core.contracts.plan import Prediction
from include.sizing.assumptions import (
    FORWARD_SHARE,
    HOUR_S,
    NOT_REPLACED_SHARE,
    REACHED_BANDWIDTH,
    REACHED_FLOP,
    REACHED_LINK,
    RESTORE_BYTES_PER_S,
    SNAPSHOT_BYTES_PER_S,
    Assumptions,
)
from include.sizing.checkpoints import checkpoint_seconds, whole_steps
from include.sizing.steps import StepEstimate

# What a twin is looked up by: the same hardware at the same place, however it is paid for.
Twin = tuple[str, str, str, str | None]


class Course(NamedTuple):
    """How a training goes on some hardware, whatever it costs.

    Attributes:
        time_s: Wall seconds.
        interruptions: Expected interruptions.
        every: Steps between checkpoints.
        parts: The wall seconds by what takes them: ``start``, ``steps``, ``validation``, ``saves``, ``interruptions``.
        active_s: Seconds of them in which steps are run, again after interruptions, or rows validated.
    """

    time_s: float
    interruptions: float
    every: int
    parts: dict[str, float]
    active_s: float


class Option(NamedTuple):
    """One offer x instances with its fastest layout. Unknown is None."""

    offer: Offer
    instances: int
    step: StepEstimate
    course: Course
    time_s: float
    usd: float | None
    kwh: float | None
    gco2e: float | None


def twin_of(offer: Offer) -> Twin:
    """Key of the offers that differ from this one in purchase option and zone alone."""
    return offer.engine, offer.instance_type, offer.region, offer.mig_profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecaster:
    """Predicts one training on any offer.

    Only the training is predicted; data preparation, compression and evaluation run on this machine and are not in it.

    Attributes:
        demand: What the training needs.
        workload: Its steps, split and checkpoint interval.
        assumed: What nobody has measured here yet.
        on_demand: Cheapest on-demand price per hour of each twin, for the rest of a run whose spot capacity is gone.
    """

    demand: Demand
    workload: Workload
    assumed: Assumptions
    on_demand: Mapping[Twin, float]

    def course(
        self, *, step: StepEstimate, ratio: float, engine: str, rate_per_h: float, start_s: float | None = None
    ) -> Course:
        """Start, steps, validation after each epoch, saves, and the expected loss to interruptions.

        Args:
            step: A step of the training.
            ratio: Measured over predicted seconds of a step, 1 where nothing was learned.
            engine: Which engine starts it.
            rate_per_h: Expected interruptions per hour, of all instances together.
            start_s: Seconds from launch to the first step; default: what is assumed of the engine.
        """
        demand, split = self.demand, self.workload.data.split
        steps_s = demand.steps * step.step_s * ratio
        size = self._part_bytes(step)
        save_s = self.assumed.save_s + size / SNAPSHOT_BYTES_PER_S
        interval_s, every = self._interval(step.step_s * ratio, save_s=save_s, rate_per_h=rate_per_h)
        validation = steps_s * FORWARD_SHARE * split.validation / (1 - split.validation - split.test)
        saving = steps_s / interval_s * save_s
        start = self.start_s(engine) if start_s is None else start_s
        interruptions = (steps_s + validation + saving) / HOUR_S * rate_per_h
        lost = start + size / RESTORE_BYTES_PER_S + interval_s / 2
        parts = {
            "start": start,
            "steps": steps_s,
            "validation": validation,
            "saves": saving,
            "interruptions": interruptions * lost,
        }
        return Course(
            time_s=sum(parts.values()),
            interruptions=interruptions,
            every=every,
            parts=parts,
            active_s=steps_s + validation + interruptions * interval_s / 2,
        )

    def _part_bytes(self, step: StepEstimate) -> float:
        """Bytes of a checkpoint that one worker writes and reads: its shard; replicas are written by one of them."""
        layout = step.layout
        whole = 1.0 - self.demand.tensor_share * (1.0 - 1.0 / layout.tensor)
        return (self.demand.checkpoint_bytes or 0) * whole / layout.shard

    def _interval(self, step_s: float, *, save_s: float, rate_per_h: float) -> tuple[float, int]:
        """Seconds and whole steps between checkpoints."""
        demand, training = self.demand, self.workload.training
        if fixed := training.checkpoint_every_steps:
            return min(fixed, demand.steps) * step_s, fixed
        # A training of so many steps names no epoch: the interval is then bounded by its length alone.
        epoch = demand.steps if training.steps else max(1, demand.steps // training.epochs)
        seconds = checkpoint_seconds(
            step_s=step_s, save_s=save_s, interruptions_per_h=rate_per_h, steps_per_epoch=epoch, steps=demand.steps
        )
        return seconds, whole_steps(seconds, step_s=step_s, steps_per_epoch=epoch, steps=demand.steps)

    def start_s(self, engine: str) -> float:
        """Seconds from launch to the first step; a machine of the user's own is taken as one that has to be booted."""
        return self.assumed.start_s.get(engine, max(self.assumed.start_s.values()))

    def option(self, offer: Offer, instances: int, step: StepEstimate, course: Course) -> Option:
        """Cost, energy and carbon of a course on an offer."""
        kwh, gco2e = self._energy(offer, instances, step, course)
        return Option(offer, instances, step, course, course.time_s, self._usd(offer, instances, course), kwh, gco2e)

    def _usd(self, offer: Offer, instances: int, course: Course) -> float | None:
        """Own price; of spot capacity that does not come back, the rest at the on-demand price.

        With losses as a Poisson process whose mean over the run is m, the rest after the first of them is on average
        1 - (1 - exp(-m)) / m of the run.
        """
        if offer.price is None:
            return None
        price = float(Decimal(offer.price.usd_per_h))
        hours = instances * course.time_s / HOUR_S
        fallback = self.on_demand.get(twin_of(offer)) if offer.purchase is PurchaseOption.SPOT else None
        lost = NOT_REPLACED_SHARE * course.interruptions
        if fallback is None or fallback <= price or lost <= 0:
            return price * hours
        rest = 1 + math.expm1(-lost) / lost
        return (price + rest * (fallback - price)) * hours

    def _energy(
        self, offer: Offer, instances: int, step: StepEstimate, course: Course
    ) -> tuple[float | None, float | None]:
        """As the agent will account for it: a shared machine by CPU seconds, a rented one in whole.

        An accelerated machine is at its peak power while the accelerators are busy, at idle power while it starts,
        copies a checkpoint, reads one back, or waits for data.
        """
        # A worker keeps its threads busy.
        time_s = course.time_s
        cpu_s = course.active_s * step.busy * offer.vcpus if offer.accelerators else time_s * self.demand.vcpus
        cores, idle_w, peak_w = offer.vcpus, offer.idle_w, offer.peak_w
        if peak_w is None:
            return None, None
        if offer.engine == "local":
            joules = shared_joules(cpu_s=cpu_s, cores=cores, peak_w=peak_w)
        elif idle_w is None:
            return None, None
        else:
            joules = exclusive_joules(cpu_s=cpu_s, wall_s=time_s, cores=cores, idle_w=idle_w, peak_w=peak_w)
        kwh = instances * joules / J_PER_KWH
        return kwh, gco2e_of(kwh, self.assumed.gco2e_per_kwh.get(offer.region))

    def prediction(self, option: Option, learned: Correction | None) -> Prediction:
        """The figures of an option with the method that they came about by."""
        return Prediction(
            time_s=option.time_s,
            usd=option.usd,
            kwh=option.kwh,
            gco2e=option.gco2e,
            peak_device_bytes=option.step.peak_bytes,
            method=self._method(option, learned),
            step_s=option.step.step_s,
            traced_peak_bytes=option.step.traced_bytes,
            step_parts=option.step.parts,
            interruptions=option.course.interruptions,
            time_parts=option.course.parts,
            host_bytes=option.step.host_bytes,
            grid=None if option.gco2e is None else self.assumed.grid_source.get(option.offer.region),
        )

    def _method(self, option: Option, learned: Correction | None) -> str:
        offer, layout = option.offer, option.step.layout
        if offer.engine == "local" and not offer.accelerators:
            basis = "CPU seconds per step measured on this machine"
            if offer.purchase is PurchaseOption.LOCAL:
                basis += (
                    "; cost of the whole machine at its peak power for all of the time, energy of the used cores alone"
                )
        else:
            basis = f"uncalibrated roofline at {REACHED_FLOP:g} of peak FLOP/s and {REACHED_BANDWIDTH:g} of bandwidth"
        if layout.workers > 1:
            basis += f", rings at {REACHED_LINK:g} of the links without overlap"
            if offer.interconnect_bytes_per_s is None:
                basis += ", links between accelerators assumed to be PCIe 3.0 x16"
        if option.step.parts.get("data"):
            basis += ", loading by cores as measured"
        rate = option.instances * self.assumed.rate_of(offer)
        memory = "memory: traced with margin"
        text = (
            f"estimated, training only: {basis}; assumed {self.start_s(offer.engine):g} s to start, "
            f"{self.assumed.save_s:g} s per checkpoint, {rate:.2g} interruptions per hour; {memory}"
        )
        if self._falls_back(offer):
            text += (
                f"; of {NOT_REPLACED_SHARE:g} of all interruptions no spot capacity comes back, the rest is on demand"
            )
        return text if learned is None else f"{text}; corrected by {learned.runs} runs, as of {learned.as_of}"

    def _falls_back(self, offer: Offer) -> bool:
        return offer.purchase is PurchaseOption.SPOT and twin_of(offer) in self.on_demand
