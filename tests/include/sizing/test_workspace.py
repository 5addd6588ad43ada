"""The workspace of convolution kernels, against the allocator's own events of single convolutions."""

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from include.sizing.trace_work import workspace_bytes
from tests.support.measured_memory import allocations

BACKWARD = torch.ops.aten.convolution_backward.default


def taken_by_backward(layer: nn.Conv2d, inputs: torch.Tensor) -> int:
    """Largest single piece of memory that the backward kernel takes."""
    outputs = layer(inputs.requires_grad_())
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        outputs.backward(torch.ones_like(outputs))
    return max(size for _, _, size, _ in allocations(profiler))


@pytest.mark.parametrize("batch", [2, 8])
@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize(
    "layer",
    [
        {"kernel_size": 3, "padding": 1},
        {"kernel_size": 3, "padding": 1, "groups": 4},
        {"kernel_size": 3, "padding": 1, "stride": 2},
        {"kernel_size": 5, "padding": 2},
    ],
    ids=str,
)
def test_a_backward_kernel_takes_what_is_predicted_also_where_maps_are_smaller_than_the_window(layer, size, batch):
    one = nn.Conv2d(128, 128, bias=False, **layer)
    inputs = torch.rand(batch, 128, size, size)
    outputs = one(inputs)
    arguments = (
        outputs, inputs, one.weight, None, one.stride, one.padding, one.dilation, False, [0, 0], one.groups,
        [True, True, False],
    )  # fmt: skip
    predicted = workspace_bytes(BACKWARD, arguments, None)
    assert predicted == pytest.approx(taken_by_backward(one, inputs), rel=0.1)
