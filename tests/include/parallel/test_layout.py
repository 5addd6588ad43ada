from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from include.core.contracts.plan import Layout
from include.core.errors import UserError
from include.parallel.layout import apply_layout, single_worker_layout
from include.parallel.step import forward_backward

ONE = Layout(micro_batch=8, accumulation=1)


@pytest.mark.parametrize(
    "change",
    [
        {"pipeline": 2},
        {"replicate": 0},
        {"shard": -1},
        {"activation_checkpointing": "all"},
        {"precision": "fp8"},
        {"micro_batch": 4},
        {"micro_batch": 0},
        {"accumulation": 2},
    ],
)
def test_layouts_that_cannot_be_run_are_refused_by_name(change: dict[str, object]) -> None:
    with pytest.raises(UserError, match=f"layout.*{next(iter(change))}"):
        apply_layout(replace(ONE, **change), batch_size=8)


def test_layout_of_an_unplanned_training_is_one_worker_with_the_whole_batch() -> None:
    execution = apply_layout(single_worker_layout(batch_size=8, precision="bf16"), batch_size=8)
    assert (execution.micro_batch, execution.precision) == (8, "bf16")


def gradient(layout: Layout, rows: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    model = torch.nn.Linear(5, 3)
    inputs, labels = torch.rand(rows, 5), torch.arange(rows) % 3
    loss = forward_backward(model, inputs=inputs, labels=labels, execution=apply_layout(layout, batch_size=8))
    assert model.weight.grad is not None
    expected = torch.nn.functional.cross_entropy(model(inputs), labels)
    mean = expected.item()
    assert float(loss) == pytest.approx(mean, rel=1e-2 if layout.precision == "bf16" else 1e-5)
    return model.weight.grad, torch.autograd.grad(expected, model.weight)[0]


@pytest.mark.parametrize("rows", [8, 7, 1])
def test_micro_batches_add_up_to_the_gradient_of_the_batch_mean(rows: int) -> None:
    found, expected = gradient(Layout(micro_batch=3, accumulation=3), rows)
    assert torch.allclose(found, expected, atol=1e-6)


def test_bf16_computes_in_bfloat16_and_keeps_fp32_gradients() -> None:
    found, expected = gradient(replace(ONE, precision="bf16"))
    assert found.dtype == torch.float32
    assert not torch.equal(found, expected)
    assert torch.allclose(found, expected, atol=1e-2)


def test_step_can_be_traced_with_fake_tensors() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        model = torch.nn.Linear(5, 3)
        execution = apply_layout(Layout(micro_batch=4, accumulation=2), batch_size=8)
        loss = forward_backward(
            model, inputs=torch.rand(8, 5), labels=torch.zeros(8, dtype=torch.int64), execution=execution
        )
    assert loss.shape == ()


def test_room_is_importable_without_torch() -> None:
    code = "import sys, include.parallel.layout, include.parallel.step; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
