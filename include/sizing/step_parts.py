"""Seconds of a step by what takes them: the device, offload, the exchange between workers. Pure."""

from __future__ import annotations

from include.core.contracts.plan import Layout
from include.sizing.assumptions import HOST_UPDATE_BYTES_PER_S, PCIE_BYTES_PER_S, REACHED_LINK
from include.sizing.communication import Links, Mesh, communication_s
from include.sizing.hardware import Device
from include.sizing.layouts import LayoutTable
from include.sizing.roofline import device_s


class StepParts:
    """Parts of the steps of one training.

    Args:
        table: Its layouts, with their work.
    """

    def __init__(self, table: LayoutTable) -> None:
        self._table = table

    def of(self, layout: Layout, *, device: Device, links: Links) -> dict[str, float]:
        """``device``, and ``communication`` and ``offload`` where there is any; they add up."""
        parts = self.alone(layout, device)
        self.together(parts, layout, links)
        return parts

    def together(self, parts: dict[str, float], layout: Layout, links: Links) -> None:
        """Add what several workers exchange."""
        if layout.workers > 1:
            parts["communication"] = communication_s(
                Mesh(layout.replicate, layout.shard, layout.tensor),
                exchange=self._table.exchange(layout),
                passes=layout.accumulation,
                links=links,
            )

    def alone(self, layout: Layout, device: Device) -> dict[str, float]:
        """What a worker takes without the others."""
        work = self._table.work(layout)
        parts = {}
        if layout.offload:
            update = self._table.update_bytes(layout)
            work = type(work)(flop=work.flop, bytes_moved=max(0.0, work.bytes_moved - update), ops=work.ops)
            exchange = self._table.exchange(layout)
            weights = 2 * layout.accumulation * self._table.offloaded_parameters_bytes
            moved = (weights + exchange.reduced) / layout.shard
            parts["offload"] = moved / (REACHED_LINK * PCIE_BYTES_PER_S) + update / HOST_UPDATE_BYTES_PER_S
        parts["device"] = device_s(work, tflops=device.tflops, bandwidth=device.bandwidth)
        return parts
