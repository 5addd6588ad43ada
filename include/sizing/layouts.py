"""Layouts that a training could have: how the model is spread, what is recomputed, how the batch is cut. Pure.

The optimizer step stays the same in all of them: replicas x micro-batch x accumulation is the workload's batch size,
and the precision is the user's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from include.config.workload import Workload
from include.core.contracts.demand import Demand, StepCase
from include.core.contracts.plan import Layout, Recompute
from include.sizing.communication import Exchange, Mesh
from include.sizing.demand_table import StepWork, memory_of, work_of

RECOMPUTE: tuple[Recompute, ...] = ("off", "selective", "block")
_HALF_WIDTH = 0.5


class Way(NamedTuple):
    """How the weights are spread and what is done to save memory; leaves the micro-batch open.

    Attributes:
        mesh: Workers by dimension.
        recompute: What the backward pass computes again.
        offload: Whether weights, gradients and optimizer state live in host memory.
    """

    mesh: Mesh
    recompute: Recompute
    offload: bool


class Fit(NamedTuple):
    """A layout with the memory that it needs on each device, traced, without margin."""

    layout: Layout
    traced_bytes: int


def complexity(layout: Layout) -> tuple[int, ...]:
    """Of two layouts that take equally long, the one with the smaller key is preferred: simpler, in bigger pieces."""
    return (
        int(layout.offload),
        RECOMPUTE.index(layout.activation_checkpointing),
        layout.tensor,
        layout.shard,
        layout.replicate,
        layout.accumulation,
    )


@cache
def divisors(number: int) -> tuple[int, ...]:
    """Divisors, largest first."""
    small = [n for n in range(1, math.isqrt(number) + 1) if number % n == 0]
    return tuple(sorted({*small, *(number // n for n in small)}, reverse=True))


class LayoutTable:
    """Layouts of one workload, with memory and work from the demand's table; remembers what it was asked.

    Args:
        demand: What the training needs.
        workload: Batch size and precision.
    """

    def __init__(self, demand: Demand, workload: Workload) -> None:
        self.demand = demand
        training = workload.training
        self._precision, self._batch = training.precision, training.batch_size
        cases = [case for case in demand.cases if case.precision == self._precision]
        # The table is for one worker at least; without such a case only the traced micro-batch is known.
        self._cases = {(case.recompute, case.shard): case for case in cases}
        self._shards = sorted({shard for _, shard in self._cases})
        self.planned_as_traced = not self._cases
        reduced_width = _HALF_WIDTH if training.reduce_precision == "bf16" else 1.0
        self._gathered, self._reduced, self._state = self._model_bytes(reduced_width)
        self._fits: dict[tuple[object, ...], int | None] = {}
        self._least: dict[int, int | None] = {}
        self._largest: dict[tuple[Way, float], Fit | None] = {}
        self._work: dict[tuple[object, ...], StepWork] = {}

    @property
    def as_traced(self) -> Layout:
        """One worker with the micro-batch that the demand was estimated for."""
        micro = self.demand.micro_batch
        return Layout(precision=self._precision, micro_batch=micro, accumulation=math.ceil(self._batch / micro))

    def ways(self, workers: int) -> Iterator[Way]:
        """All ways to put so many workers to the batch."""
        if self.planned_as_traced:
            return
        tensors = (1, 2, 4, 8) if self.demand.tensor_bytes_per_sample is not None else (1,)
        for tensor in tensors:
            parallel, rest = divmod(workers, tensor)
            if rest or parallel < 1 or self._batch % parallel:
                continue
            for shard in self._shards:
                if parallel % shard == 0:
                    yield from self._remedies(Mesh(replicate=parallel // shard, shard=shard, tensor=tensor))

    def _remedies(self, mesh: Mesh) -> Iterator[Way]:
        whole = self._precision == "fp16"  # the trainer scales the loss on whole weights alone
        if whole and (mesh.shard > 1 or mesh.tensor > 1):
            return
        for recompute in RECOMPUTE:
            case = self._cases.get((recompute, mesh.shard))
            if case is None:
                continue
            yield Way(mesh, recompute, offload=False)
            # Weights that are not sharded are fetched block by block, which a table may not have looked at.
            if not whole and (mesh.shard > 1 or case.offload_peaks):
                yield Way(mesh, recompute, offload=True)

    def layouts(self, way: Way) -> Iterator[Layout]:
        """All layouts of a way, the largest micro-batch first."""
        rows = self._rows(way)
        for micro in divisors(rows):
            yield self._layout(way, micro, rows // micro)

    def never_faster(self, way: Way) -> bool:
        """Whether saving memory in this way costs time, as it should: none of its work is less than without it."""
        plain, saving = self._cases.get(("off", way.mesh.shard)), self._cases[way.recompute, way.mesh.shard]
        if plain is None:
            return False
        return all(
            more >= less
            for more, less in (
                (saving.flop_per_sample, plain.flop_per_sample),
                (saving.bytes_moved_per_sample, plain.bytes_moved_per_sample),
                (saving.bytes_moved_per_pass, plain.bytes_moved_per_pass),
                (saving.bytes_moved_per_update, plain.bytes_moved_per_update),
                (saving.ops_per_pass, plain.ops_per_pass),
                (saving.ops_per_update, plain.ops_per_update),
            )
        )

    def largest_fitting(self, way: Way, room: float) -> Fit | None:
        """The largest micro-batch whose traced peak is within the room; it is also the fastest, see ``StepTimes``."""
        key = (way, room)
        if key not in self._largest:
            self._largest[key] = self._find_largest(way, room)
        return self._largest[key]

    def _find_largest(self, way: Way, room: float) -> Fit | None:
        rows = self._rows(way)
        for micro in divisors(rows):
            found = self._remembered(way, micro, rows // micro)
            if found is not None and found <= room:
                return Fit(self._layout(way, micro, rows // micro), found)
        return None

    def _rows(self, way: Way) -> int:
        """Samples of one worker in one step."""
        return self._batch // (way.mesh.replicate * way.mesh.shard)

    def _remembered(self, way: Way, micro: int, accumulation: int) -> int | None:
        key = (way.mesh.shard, way.mesh.replicate > 1, way.mesh.tensor, *way[1:], micro, accumulation)
        if key not in self._fits:
            self._fits[key] = self.traced_bytes(self._layout(way, micro, accumulation))
        return self._fits[key]

    def _layout(self, way: Way, micro: int, accumulation: int) -> Layout:
        mesh = way.mesh
        return Layout(
            replicate=mesh.replicate,
            shard=mesh.shard,
            tensor=mesh.tensor,
            precision=self._precision,
            micro_batch=micro,
            accumulation=accumulation,
            activation_checkpointing=way.recompute,
            offload=way.offload,
        )

    def traced_bytes(self, layout: Layout) -> int | None:
        """Peak of one worker without margin, None where the table has no such case."""
        found = memory_of(self.demand, layout)
        return None if found is None else max(0, found.total_bytes)

    def least_bytes(self, workers: int) -> int | None:
        """Smallest peak of any layout of so many workers."""
        if workers not in self._least:
            found: list[int] = []
            for way in self.ways(workers):
                rows = self._rows(way)
                sizes = (self._remembered(way, micro, rows // micro) for micro in divisors(rows))
                found += [size for size in sizes if size is not None]
            self._least[workers] = min(found, default=None)
        return self._least[workers]

    def work(self, layout: Layout) -> StepWork:
        """Work of one worker in one step; without a table that of the traced step."""
        key = (
            layout.data_parallel,
            layout.shard,
            layout.tensor,
            layout.activation_checkpointing,
            layout.accumulation,
        )
        if key not in self._work:
            self._work[key] = work_of(self.demand, layout) or self._traced_work()
        return self._work[key]

    def _traced_work(self) -> StepWork:
        demand = self.demand
        return StepWork(
            flop=demand.flop_per_sample * self._batch,
            bytes_moved=demand.bytes_moved_per_sample * self._batch,
            ops=demand.ops_per_step,
        )

    def exchange(self, layout: Layout) -> Exchange:
        """What the workers of a layout exchange in a step."""
        tensor = (self.demand.tensor_bytes_per_sample or 0.0) if layout.tensor > 1 else 0.0
        return Exchange(
            gathered=self._gathered,
            reduced=self._reduced,
            tensor=tensor * layout.micro_batch * layout.accumulation,
        )

    def update_bytes(self, layout: Layout) -> float:
        """Traffic of the optimizer's update of one worker."""
        case = self._cases.get((layout.activation_checkpointing, layout.shard))
        return 0.0 if case is None else case.bytes_moved_per_update

    def host_bytes(self, *, workers: int, share: float, offload: bool) -> float:
        """Host memory of one instance: a process per worker, its copy of a checkpoint, and what is offloaded.

        Each worker copies what it holds of the state, replicas too, though one of them writes it.

        Args:
            workers: Workers in the instance.
            share: So many copies of the model's state they hold together, 0.5 for half of it.
            offload: Whether that state is in host memory.
        """
        copies = share * (self.demand.checkpoint_bytes or 0)
        return workers * self.demand.host_ram_bytes + copies + (share * self._state if offload else 0.0)

    @property
    def offloaded_parameters_bytes(self) -> float:
        """Weights as they are held, which offload copies to the device for each pass."""
        return self._held

    def _whole(self) -> StepCase:
        """The least divided case."""
        recompute = "off" if ("off", self._shards[0]) in self._cases else next(iter(self._cases))[0]
        return self._cases[recompute, self._shards[0]]

    def _model_bytes(self, reduced_width: float) -> tuple[float, float, float]:
        if self.planned_as_traced:
            memory = self.demand.memory
            self._held = float(memory.parameters_bytes)
            return 0.0, 0.0, 0.0
        case = self._whole()
        parameters, gradients, optimizer = (
            case.shard * size for size in (case.parameters_bytes, case.gradients_bytes, case.optimizer_bytes)
        )
        self._held = float(parameters)
        # Weights are held in fp32 and gathered in the precision of the arithmetic.
        width = 1.0 if self._precision == "fp32" else _HALF_WIDTH
        return parameters * width, gradients * reduced_width, float(parameters + gradients + optimizer)
