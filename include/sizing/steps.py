"""The fastest layout on some hardware, and how long its step takes. Pure.

Price, region and purchase option play no part here, so hundreds of offers share the answer of one kind of hardware.
With an offer and a number of instances given, cost, time and carbon all rise with the time of a step and with the bytes
that a worker saves, so of the layouts that divide the state alike the fastest is the best by every objective, and the
others need not be looked at. Of one way to spread the model the largest
micro-batch that fits is the fastest: it launches fewer operators and gathers weights fewer times, all else being equal.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from include.config.workload import Workload
from include.core.contracts.correction import Correction
from include.core.contracts.demand import Demand
from include.core.contracts.offer import Offer, PurchaseOption
from include.core.contracts.plan import Layout
from include.sizing.assumptions import (
    GPU_CONTEXT_BYTES,
    HOST_UPDATE_BYTES_PER_S,
    MEMORY_MARGIN,
    MEMORY_MARGIN_LEARNED,
    MEMORY_MARGIN_RECOMPUTED,
    NO_BACKEND,
    REACHED_BANDWIDTH,
    USABLE_MEMORY,
)
from include.sizing.communication import Links, Mesh
from include.sizing.hardware import Device, device_name, device_of, worker_counts
from include.sizing.layouts import Fit, LayoutTable, Way, complexity
from include.sizing.roofline import local_s
from include.sizing.step_parts import StepParts

# Instances of a training that spans several: more would need a figure for contention in the network.
INSTANCES = (1, 2, 4, 8)
_PLAIN = ("off", False)
_HIRED = (PurchaseOption.SPOT, PurchaseOption.ON_DEMAND)


class StepEstimate(NamedTuple):
    """The best layout on some hardware.

    Attributes:
        layout: The layout.
        step_s: Seconds of a step before anything learned went in.
        parts: Seconds of it by what takes them.
        busy: Part of the step in which the accelerators compute or exchange.
        traced_bytes: Peak of the training's tensors on one device, without margin and before anything learned went in.
        peak_bytes: The same with what was learned, margin and the driver's context.
        host_bytes: Memory of the host that the workers of one instance take.
    """

    layout: Layout
    step_s: float
    parts: dict[str, float]
    busy: float
    traced_bytes: int
    peak_bytes: int
    host_bytes: int


class Found(NamedTuple):
    """A layout with its time on the device."""

    seconds: float
    fit: Fit
    parts: dict[str, float]


def _key(found: Found) -> tuple[float, tuple[int, ...]]:
    return found.seconds, complexity(found.fit.layout)


def _seconds_to_beat(best: Mapping[tuple[int, int], Found], divided: tuple[int, int]) -> float:
    """The fastest step so far of a layout that divides the state among as many workers or more."""
    rivals = (found.seconds for (shard, tensor), found in best.items() if shard >= divided[0] and tensor >= divided[1])
    return min(rivals, default=math.inf)


def _undominated(best: Mapping[tuple[int, int], Found]) -> tuple[Found, ...]:
    """Fastest first, without those that a layout before them divides as far or further."""
    kept: list[tuple[tuple[int, int], Found]] = []
    for divided, found in sorted(best.items(), key=lambda item: _key(item[1])):
        if not any(shard >= divided[0] and tensor >= divided[1] for (shard, tensor), _ in kept):
            kept.append((divided, found))
    return tuple(found for _, found in kept)


class StepTimes:
    """Steps of one training on any hardware; remembers what it was asked.

    Args:
        demand: What the training needs.
        workload: Batch size and precision.
        corrections: What earlier runs taught.
    """

    def __init__(self, demand: Demand, workload: Workload, corrections: Iterable[Correction] = ()) -> None:
        self.table = LayoutTable(demand, workload)
        self.parts = StepParts(self.table)
        self._demand, self._batch = demand, workload.training.batch_size
        self._precision = workload.training.precision
        self._corrections: Mapping[str, Correction] = {
            c.device: c for c in corrections if (c.family, c.precision) == (demand.family, self._precision) and c.runs
        }
        self._ways: dict[int, tuple[Way, ...]] = {}
        self._best: dict[tuple[object, ...], tuple[Found, ...]] = {}
        self._least: dict[tuple[object, ...], int] = {}
        self._never_faster: dict[tuple[int, str], bool] = {}

    def correction_of(self, offer: Offer) -> Correction | None:
        """What earlier runs taught of an offer's hardware."""
        return self._corrections.get(device_name(offer))

    def counts(self, offer: Offer) -> tuple[int, ...]:
        """Numbers of instances that a training could take of an offer."""
        hired = offer.purchase in _HIRED and offer.engine != "local"
        if not hired or not offer.accelerators or offer.mig_profile or offer.network_bytes_per_s is None:
            return (1,)
        return (1,) if self.table.planned_as_traced else INSTANCES

    def unknown(self, offer: Offer) -> str | None:
        """Why no time can be told for an offer, None where it can."""
        kind = offer.accelerator or "CPU"
        if offer.engine == "local" and not offer.accelerators:
            return None if local_s(self._demand) is not None else "time unknown: not measured on this machine"
        if kind.startswith(NO_BACKEND):
            return f"the trainer has no backend for {kind}"
        if device_of(offer, self._precision) is None:
            return f"time unknown: no datasheet figures for {kind} in {self._precision}"
        return None

    def device_of(self, offer: Offer) -> Device | None:
        """The offer's accelerators in the precision of the training, None where a fact is missing."""
        return device_of(offer, self._precision)

    def best(self, offer: Offer, instances: int) -> StepEstimate | None:
        """The fastest layout that fits; None where none does or where no time can be told."""
        return next(iter(self.candidates(offer, instances)), None)

    def candidates(self, offer: Offer, instances: int) -> tuple[StepEstimate, ...]:
        """Layouts of which one is the best whatever a checkpoint takes: the fastest, then slower ones.

        Each slower one divides the state among more workers than those before it, so that checkpoints take less time.
        """
        if offer.engine == "local" and not offer.accelerators:
            alone = self._on_this_machine(offer)
            return () if alone is None else (alone,)
        device = device_of(offer, self._precision)
        if device is None:
            return ()
        ram = self._tight_ram(offer, device.accelerators)
        key = (device, instances, offer.network_bytes_per_s if instances > 1 else None, ram, offer.engine == "local")
        if key not in self._best:
            self._best[key] = self._fastest(offer, device, instances)
        return tuple(self._estimate(offer, found, self.data_s(offer, instances)) for found in self._best[key])

    def _estimate(self, offer: Offer, found: Found, data_s: float) -> StepEstimate:
        step_s = max(found.seconds, data_s)
        layout, traced = found.fit
        return StepEstimate(
            layout=layout,
            step_s=step_s,
            parts={**found.parts, "data": data_s} if data_s else found.parts,
            busy=found.seconds / step_s,
            traced_bytes=traced,
            peak_bytes=self.reserved_bytes(offer, layout, traced),
            host_bytes=round(self.host_bytes(offer, layout)),
        )

    def data_s(self, offer: Offer, instances: int) -> float:
        """Seconds in which the cores read and decode one batch, 0 where nobody has measured a core.

        A core per accelerator is left to the loop that drives it; a virtual CPU is taken as a core.
        """
        rate = self._demand.loader_samples_per_core_s
        if rate is None:
            return 0.0
        return self._batch / (rate * max(1, offer.vcpus - offer.accelerators) * instances)

    def least_bytes(self, offer: Offer) -> int:
        """Device memory that has to be reserved on an offer at the least, whatever the layout and the time."""
        key = (offer.accelerators, self.counts(offer), device_name(offer), offer.mig_profile, offer.engine)
        if key not in self._least:
            self._least[key] = self._smallest(offer)
        return self._least[key]

    def _smallest(self, offer: Offer) -> int:
        if self.table.planned_as_traced or not offer.accelerators or offer.engine == "local":
            return self.reserved_bytes(offer, self.table.as_traced, self._demand.memory.total_bytes)
        most = max(worker_counts(offer, 1)) * self.counts(offer)[-1]
        sizes = [self.table.least_bytes(n) for n in (most, *worker_counts(offer, 1))]
        options = [round(self._factor(offer, "off") * size) + GPU_CONTEXT_BYTES for size in sizes if size is not None]
        return min(options, default=self.reserved_bytes(offer, self.table.as_traced, self._demand.memory.total_bytes))

    def reserved_bytes(self, offer: Offer, layout: Layout, traced: int) -> int:
        """A traced peak with what was learned and its margin, on an accelerator also the driver's context."""
        factor = self._factor(offer, layout.activation_checkpointing)
        return round(factor * traced) + (GPU_CONTEXT_BYTES if offer.accelerators else 0)

    def host_bytes(self, offer: Offer, layout: Layout) -> float:
        """Host memory that a layout needs in one instance of an offer."""
        inside = min(layout.workers, max(1, offer.accelerators))
        whole = 1.0 - self._demand.tensor_share * (1.0 - 1.0 / layout.tensor)
        return self.table.host_bytes(workers=inside, share=inside * whole / layout.shard, offload=layout.offload)

    def fastest_within(self, offer: Offer, workers: int, room: float) -> Fit | None:
        """The fastest layout of so many workers whose traced peak is within the room."""
        device = device_of(offer, self._precision)
        if device is None:
            return None
        links = Links(min(workers, device.accelerators), device.interconnect, offer.network_bytes_per_s)
        fits = (self.table.largest_fitting(way, room) for way in self._ways_of(workers))
        timed = [
            (sum(self.parts.of(fit.layout, device=device, links=links).values()), complexity(fit.layout), fit)
            for fit in fits
            if fit is not None and self.host_bytes(offer, fit.layout) <= USABLE_MEMORY * offer.ram_bytes
        ]
        return min(timed, key=lambda item: item[:2])[2] if timed else None

    def _fastest(self, offer: Offer, device: Device, instances: int) -> tuple[Found, ...]:
        if self.table.planned_as_traced or offer.engine == "local":
            alone = self._as_traced(offer, device)
            return () if alone is None else (alone,)
        best: dict[tuple[int, int], Found] = {}
        for inside in reversed(worker_counts(offer, instances)):
            links = Links(inside, device.interconnect, offer.network_bytes_per_s)
            settled: Mesh | None = None
            for way in self._ways_of(inside * instances):
                if way.mesh == settled and self._remedy_costs(way, device):
                    continue
                divided = self._divided(way.mesh)
                found = self._timed(way, offer, device, links, _seconds_to_beat(best, divided))
                if found is None:
                    continue
                if way[1:] == _PLAIN and found.fit.layout.accumulation == 1:
                    settled = way.mesh
                if divided not in best or _key(found) < _key(best[divided]):
                    best[divided] = found
        return _undominated(best)

    def _divided(self, mesh: Mesh) -> tuple[int, int]:
        """Among how many workers the state is divided, as far as a checkpoint goes."""
        if not self._demand.checkpoint_bytes:
            return 1, 1
        return mesh.shard, mesh.tensor if self._demand.tensor_share else 1

    def _remedy_costs(self, way: Way, device: Device) -> bool:
        """Whether a way to save memory cannot beat one pass without it.

        With offload the update moves from the device's memory to the slower one of the host, and copies come on top.
        """
        slower_host = REACHED_BANDWIDTH * device.bandwidth >= HOST_UPDATE_BYTES_PER_S
        return self._never_faster[way.mesh.shard, way.recompute] and (slower_host or not way.offload)

    def _timed(self, way: Way, offer: Offer, device: Device, links: Links, at_most: float) -> Found | None:
        """A way with its largest micro-batch that fits, None where none does or where it takes longer than that."""
        room = (USABLE_MEMORY * device.memory_bytes - GPU_CONTEXT_BYTES) / self._factor(offer, way.recompute)
        fit = self.table.largest_fitting(way, room)
        if fit is None or self.host_bytes(offer, fit.layout) > USABLE_MEMORY * offer.ram_bytes:
            return None
        parts = self.parts.alone(fit.layout, device)
        if sum(parts.values()) > at_most:
            return None
        self.parts.together(parts, fit.layout, links)
        return Found(sum(parts.values()), fit, parts)

    def _as_traced(self, offer: Offer, device: Device) -> Found | None:
        """One worker with the traced micro-batch."""
        layout, traced = self.table.as_traced, self._demand.memory.total_bytes
        if self.reserved_bytes(offer, layout, traced) > USABLE_MEMORY * device.memory_bytes:
            return None
        if self.host_bytes(offer, layout) > USABLE_MEMORY * offer.ram_bytes:
            return None
        parts = self.parts.of(layout, device=device, links=Links(1, None, None))
        return Found(sum(parts.values()), Fit(layout, traced), parts)

    def _on_this_machine(self, offer: Offer) -> StepEstimate | None:
        seconds, layout = local_s(self._demand), self.table.as_traced
        if seconds is None or self.host_bytes(offer, layout) > USABLE_MEMORY * offer.ram_bytes:
            return None
        traced = self._demand.memory.total_bytes
        return StepEstimate(
            layout=layout,
            step_s=seconds,
            parts={"device": seconds},
            busy=1.0,
            traced_bytes=traced,
            peak_bytes=self.reserved_bytes(offer, layout, traced),
            host_bytes=round(self.host_bytes(offer, layout)),
        )

    def _factor(self, offer: Offer, recompute: str) -> float:
        """By how much a traced peak is multiplied."""
        learned = self.correction_of(offer)
        if learned is not None and learned.worst_memory_ratio is not None:
            return max(1.0, learned.worst_memory_ratio) * MEMORY_MARGIN_LEARNED
        return MEMORY_MARGIN if recompute == "off" else MEMORY_MARGIN_RECOMPUTED

    def _ways_of(self, workers: int) -> tuple[Way, ...]:
        if workers not in self._ways:
            ways = self._ways[workers] = tuple(self.table.ways(workers))
            for way in ways:
                self._never_faster.setdefault((way.mesh.shard, way.recompute), self.table.never_faster(way))
        return self._ways[workers]

    def _tight_ram(self, offer: Offer, count: int) -> int | None:
        """The host's memory where it could rule a layout out, None where any layout fits into it."""
        most = self.table.host_bytes(workers=count, share=count, offload=True)
        return None if most <= USABLE_MEMORY * offer.ram_bytes else offer.ram_bytes
