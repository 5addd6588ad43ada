import copy

import pytest
import torch

from include.compression.prune import count_parameters, prune
from include.core.contracts.recipe import PruneStep
from include.training.models import mlp, small_cnn

CASES = {
    "cnn": (lambda: small_cnn.build((1, 8, 8), 10, width=16, hidden=32), torch.rand(4, 1, 8, 8)),
    "mlp": (lambda: mlp.build((20,), 3, hidden=(32, 16)), torch.rand(4, 20)),
}


@pytest.fixture(params=CASES)
def case(request):
    build, example = CASES[request.param]
    torch.manual_seed(0)
    return build().eval(), example


def widths(model):
    return [m.weight.shape[0] for m in model.modules() if isinstance(m, (torch.nn.Conv2d, torch.nn.Linear))]


def test_half_the_channels_leave_and_the_classes_stay(case):
    model, example = case
    pruned = prune(model, step=PruneStep(ratio=0.5, round_to=8), example=example)
    assert widths(pruned)[:-1] == [width // 2 for width in widths(model)[:-1]]
    assert widths(pruned)[-1] == widths(model)[-1]
    assert count_parameters(pruned) < 0.5 * count_parameters(model)
    assert pruned(example).shape == model(example).shape


def test_the_model_that_was_given_stays_as_it_was(case):
    model, example = case
    before = copy.deepcopy(model.state_dict())
    prune(model, step=PruneStep(), example=example)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_the_same_weights_give_the_same_structure_and_weights(case):
    model, example = case
    one, two = (prune(model, step=PruneStep(ratio=0.3, round_to=4), example=example).state_dict() for _ in range(2))
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_the_weakest_channels_leave():
    torch.manual_seed(0)
    model = mlp.build((20,), 3, hidden=(16,))
    with torch.no_grad():
        for layer, rows in ((model[1].weight, slice(0, 8)), (model[1].bias, slice(0, 8))):
            layer[rows] = 0
        model[-1].weight[:, :8] = 0
    example = torch.rand(8, 20)
    pruned = prune(model, step=PruneStep(ratio=0.5, round_to=8), example=example)
    # Channels that contribute nothing can leave without a trace.
    assert torch.allclose(pruned(example), model.eval()(example), atol=1e-6)


def test_channel_counts_are_multiples_of_round_to(case):
    model, example = case
    for step in (PruneStep(ratio=0.4, round_to=8), PruneStep(ratio=0.6, round_to=4)):
        pruned = prune(model, step=step, example=example)
        assert all(width % step.round_to == 0 for width in widths(pruned)[:-1])


def test_pruning_nothing_is_said_aloud(caplog):
    model = mlp.build((20,), 3, hidden=(8,))
    pruned = prune(model, step=PruneStep(ratio=0.3, round_to=8), example=torch.rand(4, 20))
    assert count_parameters(pruned) == count_parameters(model)
    assert "nothing was pruned" in caplog.text
