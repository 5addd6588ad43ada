"""Seconds between workers."""

from __future__ import annotations

import math

import pytest

from include.sizing.communication import Exchange, Links, Mesh, communication_s, ring_s

NVLINK = Links(workers=8, interconnect=300e9, network=50e9)
MODEL = Exchange(gathered=2e9, reduced=4e9, tensor=1e9)


def seconds(mesh, *, passes=1, links=NVLINK):
    return communication_s(Mesh(*mesh), exchange=MODEL, passes=passes, links=links)


def test_one_worker_exchanges_nothing():
    assert seconds((1, 1, 1)) == 0


def test_an_all_reduce_moves_twice_the_share_of_the_others():
    # 2 x 7/8 of 4 GB at 0.7 of 300 GB/s, and 14 hops of 10 us
    assert seconds((8, 1, 1)) == pytest.approx(2 * 7 / 8 * 4e9 / (0.7 * 300e9) + 14e-5)


def test_shards_gather_weights_in_every_pass_and_scatter_gradients_once():
    gather, scatter = (7 / 8 * size / (0.7 * 300e9) + 7e-5 for size in (2e9, 4e9))
    assert seconds((1, 8, 1)) == pytest.approx(2 * gather + scatter)
    assert seconds((1, 8, 1), passes=3) == pytest.approx(6 * gather + scatter)


def test_replicas_of_shards_reduce_their_share_over_the_network():
    inside = seconds((1, 8, 1))
    # 8 rings of 2 ranks share the network of an instance: each has an eighth of it and of the gradients
    across = 2 * 1 / 2 * (4e9 / 8) / (0.7 * 50e9 / 8) + 2 * 5e-5
    assert seconds((2, 8, 1)) == pytest.approx(inside + across)


def test_one_ring_over_all_instances_has_the_network_to_itself():
    assert ring_s(16, inner=1, size=4e9, links=NVLINK, turns=2) == pytest.approx(
        2 * 15 / 16 * 4e9 / (0.7 * 50e9) + 30 * 5e-5
    )


def test_without_a_figure_accelerators_are_linked_by_pcie():
    slow = Links(workers=4, interconnect=None, network=None)
    assert ring_s(4, inner=1, size=1e9, links=slow, turns=1) == pytest.approx(0.75e9 / (0.7 * 15.75e9) + 3e-5)


def test_without_a_network_nothing_goes_between_instances():
    assert math.isinf(ring_s(16, inner=1, size=1.0, links=NVLINK._replace(network=None), turns=1))


def test_tensor_parallel_workers_reduce_activations_and_hold_a_part_of_the_weights():
    alone = 2 * 1 / 2 * 1e9 / (0.7 * 300e9) + 2e-5
    assert seconds((1, 1, 2)) == pytest.approx(alone)
    assert seconds((4, 1, 2)) == pytest.approx(alone + 2 * 3 / 4 * 2e9 / (0.7 * 300e9) + 6e-5)
