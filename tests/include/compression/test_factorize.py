import pytest
import torch
from torch import nn

from include.compression.factorize import factorize
from include.core.contracts.recipe import FactorizeStep

ROWS = torch.rand(128, 32, generator=torch.Generator().manual_seed(0))
PICTURES = torch.rand(16, 3, 12, 12, generator=torch.Generator().manual_seed(0))


def low_rank(outputs, inputs, rank):
    made = nn.Linear(inputs, outputs)
    generator = torch.Generator().manual_seed(rank)
    left, right = torch.randn(outputs, rank, generator=generator), torch.randn(rank, inputs, generator=generator)
    made.weight.data = left @ right / inputs**0.5
    return made


def weights(model):
    return sum(parameter.numel() for parameter in model.parameters())


def error(found, expected):
    return float((found - expected).norm() / expected.norm())


def test_a_layer_of_low_rank_is_found_out_exactly():
    model = nn.Sequential(low_rank(48, 32, rank=5), nn.Linear(48, 4)).eval()
    thin = factorize(model, step=FactorizeStep(max_error=1e-3), rows=ROWS)
    first, second = thin[0]
    assert first.weight.shape == (5, 32)
    assert second.weight.shape == (48, 5)
    assert torch.allclose(thin(ROWS), model(ROWS), atol=1e-4)


def test_the_model_is_left_as_it_is_and_so_is_its_head():
    model = nn.Sequential(low_rank(48, 32, rank=3), nn.Linear(48, 4)).eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    thin = factorize(model, step=FactorizeStep(), rows=ROWS)
    assert {name for name, value in model.state_dict().items() if torch.equal(value, before[name])} == set(before)
    assert isinstance(thin[1], nn.Linear)


@pytest.mark.parametrize("allowed", [0.02, 0.1, 0.3])
def test_no_layers_output_is_further_off_than_allowed_and_more_error_means_fewer_weights(allowed):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 256), nn.Linear(256, 256), nn.Linear(256, 4)).eval()
    model[1].weight.data *= torch.linspace(1, 0, 256)[:, None] ** 4
    thin = factorize(model, step=FactorizeStep(max_error=allowed), rows=ROWS)
    seen = model[0](ROWS)
    plain = nn.functional.linear(seen, model[1].weight)
    # The bias is exact: the error is that of the product.
    assert error(thin[1](seen) - model[1].bias, plain) <= allowed * 1.01
    looser = factorize(model, step=FactorizeStep(max_error=min(allowed * 2, 0.9)), rows=ROWS)
    assert weights(looser) <= weights(thin) <= weights(model)


def test_a_layer_that_has_nothing_to_save_keeps_its_form():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 4)).eval()
    nn.init.orthogonal_(model[0].weight)
    thin = factorize(model, step=FactorizeStep(max_error=0.01), rows=ROWS)
    assert isinstance(thin[0], nn.Linear)
    assert torch.equal(thin(ROWS), model(ROWS))


@pytest.mark.parametrize(
    "options", [{}, {"stride": 2}, {"padding": 1}, {"dilation": 2}, {"padding": "same"}, {"bias": False}]
)
def test_a_convolution_becomes_two_with_the_same_answer(options):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 64, 3, **options), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 4))
    layer = model.eval()[0]
    matrix = layer.weight.data.flatten(1)
    u, s, v = torch.linalg.svd(matrix, full_matrices=False)
    layer.weight.data = ((u[:, :4] * s[:4]) @ v[:4]).reshape(layer.weight.shape)
    thin = factorize(model, step=FactorizeStep(max_error=1e-3, scope="all"), rows=PICTURES)
    first, second = thin[0]
    assert (first.weight.shape, second.weight.shape) == ((4, 3, 3, 3), (64, 4, 1, 1))
    assert torch.allclose(thin[0](PICTURES), layer(PICTURES), atol=1e-4)
    untouched = factorize(model, step=FactorizeStep(max_error=1e-3), rows=PICTURES)
    assert isinstance(untouched[0], nn.Conv2d)


def test_grouped_convolutions_are_left_alone():
    model = nn.Sequential(nn.Conv2d(3, 3, 3, groups=3), nn.Flatten(), nn.Linear(300, 4)).eval()
    thin = factorize(model, step=FactorizeStep(max_error=0.9, scope="all"), rows=PICTURES)
    assert isinstance(thin[0], nn.Conv2d)
