"""Seconds that workers spend on exchanging gradients, weights and activations in one optimizer step. Pure.

The alpha-beta model of ring algorithms (Thakur, Rabenseifner, Gropp, IJHPCA 2005): a ring of n ranks moves (n - 1) / n
of the bytes for a gather or a scatter, twice that for an all-reduce, and waits once per hop. Nothing overlaps with
arithmetic, which is pessimistic.
"""

from __future__ import annotations

from typing import NamedTuple

from include.sizing.assumptions import HOP_S, NETWORK_HOP_S, PCIE_BYTES_PER_S, REACHED_LINK

_GATHER, _ALL_REDUCE = 1, 2


class Links(NamedTuple):
    """What connects the workers.

    Attributes:
        workers: Workers in one instance.
        interconnect: Bytes per second between accelerators of an instance; None is taken as PCIe.
        network: Bytes per second between instances.
    """

    workers: int
    interconnect: float | None
    network: float | None


class Exchange(NamedTuple):
    """Bytes of the whole model that workers exchange.

    Attributes:
        gathered: Weights in the precision of the arithmetic.
        reduced: Gradients in the precision of the reduction.
        tensor: Activations of all passes of one worker that tensor-parallel workers reduce, 0 without them.
    """

    gathered: float
    reduced: float
    tensor: float


class Mesh(NamedTuple):
    """Workers by dimension; tensor is the innermost, so that it stays within an instance as long as it can."""

    replicate: int
    shard: int
    tensor: int


def ring_s(ranks: int, *, inner: int, size: float, links: Links, turns: int) -> float:
    """Seconds of one collective over a ring.

    Args:
        ranks: Ranks of the ring.
        inner: Product of the inner dimensions: so many ranks lie between neighbours of the ring.
        size: Bytes that the ring as a whole holds.
        links: What connects the workers.
        turns: 1 for a gather or a scatter, 2 for an all-reduce.
    """
    if ranks <= 1:
        return 0.0
    moved = turns * (ranks - 1) / ranks * size
    hops = turns * (ranks - 1)
    local = links.interconnect or PCIE_BYTES_PER_S
    if ranks * inner <= links.workers:
        return moved / (REACHED_LINK * local) + hops * HOP_S
    if links.network is None:
        return float("inf")
    # Ranks of this ring in one instance; the other workers there belong to rings that use the network at the same time.
    inside = max(1, min(ranks, links.workers // inner))
    share = links.network / (links.workers / inside)
    return moved / (REACHED_LINK * min(local, share)) + hops * NETWORK_HOP_S


def communication_s(mesh: Mesh, *, exchange: Exchange, passes: int, links: Links) -> float:
    """Seconds of one optimizer step.

    Sharded weights are gathered for forward and backward of every pass; gradients are scattered, and reduced between
    replicas, once per step, as the trainer does.

    Args:
        mesh: Workers by dimension.
        exchange: What they exchange.
        passes: Forward passes of a step.
        links: What connects them.
    """
    total = 0.0
    if mesh.tensor > 1:
        total += ring_s(mesh.tensor, inner=1, size=exchange.tensor, links=links, turns=_ALL_REDUCE)
    if mesh.shard > 1:
        weights, gradients = exchange.gathered / mesh.tensor, exchange.reduced / mesh.tensor
        gather = ring_s(mesh.shard, inner=mesh.tensor, size=weights, links=links, turns=_GATHER)
        scatter = ring_s(mesh.shard, inner=mesh.tensor, size=gradients, links=links, turns=_GATHER)
        total += 2 * passes * gather + scatter
    if mesh.replicate > 1:
        inner = mesh.tensor * mesh.shard
        share = exchange.reduced / inner
        total += ring_s(mesh.replicate, inner=inner, size=share, links=links, turns=_ALL_REDUCE)
    return total
