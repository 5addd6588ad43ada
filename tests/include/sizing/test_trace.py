"""Traced memory, FLOPs and traffic against values computed by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from include.parallel.layout import Execution
from include.sizing.measure import cpu_s_per_step
from include.sizing.trace import StepShape
from include.training.models import transformer
from tests.support.traced import traced_memory, traced_work

# 64 -> 128 -> 10 with biases
MLP_PARAMETERS = 64 * 128 + 128 + 128 * 10 + 10
MLP_TENSORS = 4


def mlp():
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))


def step(build=mlp, *, batch=2, input_shape=(64,), optimizer="adamw", precision="fp32", micro_batch=None):
    execution = Execution(micro_batch=micro_batch or batch, precision=precision)
    return StepShape(
        build=build, input_shape=input_shape, classes=10, batch=batch, optimizer=optimizer, execution=execution
    )


def test_model_states_of_an_mlp_are_exact():
    # With two samples the peak lies in the update, where all gradients and states are alive.
    memory = traced_memory(step())
    assert memory.parameters_bytes == 4 * MLP_PARAMETERS
    assert memory.gradients_bytes == 4 * MLP_PARAMETERS
    assert memory.optimizer_bytes == 2 * 4 * MLP_PARAMETERS + 4 * MLP_TENSORS  # two moments and a step counter each


def test_momentum_is_one_copy():
    assert traced_memory(step(optimizer="sgd", batch=64)).optimizer_bytes == 4 * MLP_PARAMETERS


def test_buffers_count_as_parameters():
    normed = lambda: nn.Sequential(nn.Linear(64, 8), nn.BatchNorm1d(8), nn.Linear(8, 10))  # noqa: E731 - a builder in one line
    parameters = 64 * 8 + 8 + 2 * 8 + 8 * 10 + 10
    buffers = 2 * 8 * 4 + 8  # running mean and variance in fp32, an int64 counter
    assert traced_memory(step(normed)).parameters_bytes == 4 * parameters + buffers


def test_activations_grow_linearly_with_the_batch():
    small, large = (traced_memory(step(batch=batch)) for batch in (1024, 4096))
    assert large.activations_bytes == pytest.approx(4 * small.activations_bytes, rel=0.001)
    assert large.parameters_bytes == small.parameters_bytes


def test_smaller_micro_batches_need_less():
    whole, parts = (traced_memory(step(batch=4096, micro_batch=size)) for size in (4096, 512))
    assert parts.total_bytes < whole.total_bytes / 3


def test_bf16_halves_the_activations():
    wide = lambda: nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), nn.ReLU()) for _ in range(8)), nn.Linear(64, 10))  # noqa: E731 - a builder in one line
    fp32, bf16 = (traced_memory(step(wide, batch=4096, precision=name)).activations_bytes for name in ("fp32", "bf16"))
    assert 0.45 < bf16 / fp32 < 0.75


def test_the_total_is_the_sum():
    memory = traced_memory(step(batch=64))
    assert memory.total_bytes == sum(getattr(memory, name) for name in memory.__slots__)
    assert all(getattr(memory, name) >= 0 for name in memory.__slots__)


def test_flops_of_an_mlp():
    # Forward 2 x in x out; backward twice that, except that no gradient reaches the input of the first layer.
    batch = 8
    forward = 2 * batch * (64 * 128 + 128 * 10)
    input_gradient_of_the_first = 2 * batch * 64 * 128
    assert traced_work(step(batch=batch)).flop == 3 * forward - input_gradient_of_the_first


@pytest.mark.parametrize("groups", [1, 2, 8])
def test_convolutions_count_one_forward_for_each_gradient(groups):
    channels, side, batch = 8, 16, 4

    def two():
        body = [nn.Conv2d(channels, channels, 3, padding=1, groups=groups) for _ in range(2)]
        return nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10))

    convolution = 2 * batch * (channels * channels // groups * 9 * side * side)
    classifier = 2 * batch * channels * 10
    # no gradient reaches the input of the first one
    assert traced_work(step(two, batch=batch, input_shape=(channels, side, side))).flop == (
        2 * convolution + 3 * convolution + 3 * classifier
    )


def test_attention_is_counted():
    build = lambda: transformer.build((32,), 10, vocabulary=10, width=64, depth=1, heads=2)  # noqa: E731 - a builder in one line
    found = traced_work(step(build, batch=2, input_shape=(32,))).flop
    products = 2 * 2 * 32 * (4 * 64 * 64 + 2 * 64 * 256) + 2 * 2 * 64 * 10
    forward = 2 * 2 * 2 * 32 * 32 * 64  # two products of length x length x width
    backward = 5 * 2 * 2 * 32 * 32 * 64  # five, since the scores are computed again
    assert found == 3 * products + forward + backward


def test_traffic_covers_at_least_what_a_step_must_touch():
    counts = traced_work(step(batch=2))
    # weights read forward and backward, gradients written, both moments and the weights read and written
    assert counts.bytes_moved > 4 * MLP_PARAMETERS * 8
    assert 30 < counts.ops < 300


def test_views_move_nothing():
    flat = lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 10))  # noqa: E731 - a builder in one line
    plain = lambda: nn.Linear(64, 10)  # noqa: E731 - a builder in one line
    assert traced_work(step(flat)).bytes_moved == traced_work(step(plain)).bytes_moved


def test_a_factory_that_moves_its_model_can_be_traced():
    assert traced_memory(step(lambda: mlp().to(torch.float32))).parameters_bytes == 4 * MLP_PARAMETERS


def test_tied_weights_count_once():
    def tied():
        first, second = nn.Linear(64, 64), nn.Linear(64, 64)
        second.weight = first.weight
        return nn.Sequential(first, second, nn.Linear(64, 10))

    assert traced_memory(step(tied)).parameters_bytes == 4 * (64 * 64 + 2 * 64 + 64 * 10 + 10)


def test_a_trace_leaves_no_fake_tensors_behind():
    traced_memory(step())
    assert type(torch.zeros(1)) is torch.Tensor


def test_real_steps_take_cpu_time_and_more_for_more_work():
    threads = torch.get_num_threads()
    wide = lambda: nn.Sequential(nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))  # noqa: E731 - a builder in one line
    small, large = cpu_s_per_step(step(batch=2), threads=1), cpu_s_per_step(step(wide, batch=256), threads=1)
    assert 0 < small.cpu_s < large.cpu_s
    assert (small.warm_steps, small.steps) == (5, 20)
    assert torch.get_num_threads() == threads


def test_recomputed_blocks_keep_less():
    block = lambda: nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.Sigmoid())  # noqa: E731 - a builder in one line
    deep = lambda: nn.Sequential(*(block() for _ in range(8)), nn.Linear(64, 10))  # noqa: E731 - a builder in one line
    kept = step(deep, batch=4096)
    recomputed = replace(kept, execution=replace(kept.execution, recompute="block"))
    less, more = traced_memory(recomputed), traced_memory(kept)
    assert less.activations_bytes < 0.9 * more.activations_bytes
    assert less.parameters_bytes == more.parameters_bytes
    assert traced_work(recomputed).ops > traced_work(kept).ops
