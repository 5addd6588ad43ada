import copy

import pytest
import torch
from torch.nn import functional

from include.compression.distill import TrainingRows, distill, distillation_loss, exact_arithmetic
from include.core.contracts.recipe import DistillStep
from include.training.models import mlp


@pytest.fixture
def rows():
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(200, 6, generator=generator)
    return TrainingRows(x=x, y=(x[:, 0] + x[:, 1] > 0).long())


@pytest.fixture
def teacher(rows):
    torch.manual_seed(2)
    model = mlp.build((6,), 2, hidden=(16,), dropout=0.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(60):
        optimizer.zero_grad()
        functional.cross_entropy(model(rows.x), rows.y).backward()
        optimizer.step()
    return model


def student():
    torch.manual_seed(3)
    return mlp.build((6,), 2, hidden=(8,), dropout=0.2)


def run(teacher, rows, *, seed=7, step=None, model=None, epochs_seen=None):
    return distill(
        model or student(),
        teacher=teacher,
        rows=rows,
        step=step or DistillStep(epochs=5, lr=0.02),
        seed=seed,
        batch_size=32,
        on_epoch=lambda epoch, loss: None if epochs_seen is None else epochs_seen.append((epoch, loss)),
    )


def accuracy(model, rows):
    return (model(rows.x).argmax(1) == rows.y).float().mean().item()


def test_the_student_learns_and_comes_back_ready_to_answer(teacher, rows):
    seen = []
    recovered = run(teacher, rows, epochs_seen=seen)
    assert accuracy(recovered, rows) > 0.9 > accuracy(student().eval(), rows)
    assert not recovered.training
    assert [epoch for epoch, _ in seen] == [1, 2, 3, 4, 5]
    assert seen[-1][1] < seen[0][1]


def test_equal_arguments_give_bit_identical_weights_whatever_came_before(teacher, rows):
    first = run(teacher, rows).state_dict()
    torch.manual_seed(99)
    torch.rand(5)
    second = run(teacher, rows).state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    other = run(teacher, rows, seed=8).state_dict()
    assert not all(torch.equal(first[name], other[name]) for name in first)


def test_the_teacher_stays_as_it_was(teacher, rows):
    before = copy.deepcopy(teacher.state_dict())
    run(teacher, rows)
    assert all(torch.equal(before[name], value) for name, value in teacher.state_dict().items())


def test_with_soft_targets_alone_the_student_follows_the_teacher_and_not_the_labels(teacher, rows):
    wrong = TrainingRows(x=rows.x, y=1 - rows.y)
    soft = run(teacher, wrong, step=DistillStep(epochs=8, lr=0.02, alpha=1.0))
    hard = run(teacher, wrong, step=DistillStep(epochs=8, lr=0.02, alpha=0.0))
    assert accuracy(soft, rows) > 0.9
    assert accuracy(hard, rows) < 0.1


def test_loss_has_its_two_parts():
    s, t, y = torch.tensor([[2.0, 0.0]]), torch.tensor([[0.0, 1.0]]), torch.tensor([0])
    hard = distillation_loss(s, t, y, step=DistillStep(alpha=0.0))
    assert hard.item() == pytest.approx(functional.cross_entropy(s, y).item())
    assert distillation_loss(t, t, y, step=DistillStep(alpha=1.0)).item() == pytest.approx(0, abs=1e-6)
    p, q = torch.softmax(t / 3, 1), torch.softmax(s / 3, 1)
    soft = distillation_loss(s, t, y, step=DistillStep(alpha=1.0, temperature=3.0))
    assert soft.item() == pytest.approx(9 * (p * (p / q).log()).sum().item(), rel=1e-5)


def test_a_last_batch_of_one_row_does_not_break_batch_statistics(teacher, rows):
    model = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.BatchNorm1d(4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    odd = TrainingRows(x=rows.x[:65], y=rows.y[:65])
    assert run(teacher, odd, model=model, step=DistillStep(epochs=1))(odd.x).shape == (65, 2)


def test_settings_of_torch_come_back_even_after_an_error():
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    with exact_arithmetic(5):
        assert torch.get_num_threads() == 1
        assert torch.are_deterministic_algorithms_enabled()
    with pytest.raises(RuntimeError, match="inside"), exact_arithmetic(5):
        raise RuntimeError("inside")
    assert torch.get_num_threads() == threads
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.equal(torch.get_rng_state(), state)
