from __future__ import annotations

import pytest
import torch
from torch import nn

from include.core.errors import UserError
from include.training.models import mlp, small_cnn


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 32, 32), (1, 4, 4), (2, 5, 33)])
def test_cnn_gives_one_logit_per_class_for_images_of_any_size(shape: tuple[int, int, int]) -> None:
    model = small_cnn.build(shape, 7, width=4, hidden=8)
    assert model(torch.rand(3, *shape)).shape == (3, 7)


def test_cnn_of_the_digits_has_a_size_that_quantization_can_shrink() -> None:
    model = small_cnn.build((1, 8, 8), 10, width=32, hidden=128)
    weights_bytes = sum(4 * p.numel() for p in model.parameters())
    assert 300_000 <= weights_bytes <= 1_200_000


def test_flattened_map_stays_small_for_large_images() -> None:
    hidden = next(m for m in small_cnn.build((3, 224, 224), 10).modules() if isinstance(m, nn.Linear))
    assert hidden.in_features <= 4 * 32 * 7 * 7


@pytest.mark.parametrize("build", [small_cnn.build, mlp.build])
def test_classifier_is_the_last_linear_layer(build) -> None:
    linear = [m for m in build((1, 8, 8), 10).modules() if isinstance(m, nn.Linear)]
    assert linear[-1].out_features == 10


@pytest.mark.parametrize("build", [small_cnn.build, mlp.build])
def test_one_row_can_be_trained_on(build) -> None:
    model = build((1, 8, 8), 10).train()
    model(torch.rand(1, 1, 8, 8)).sum().backward()


def test_mlp_follows_its_hidden_layers() -> None:
    model = mlp.build((5, 2), 3, hidden=[7, 4])
    assert [m.out_features for m in model.modules() if isinstance(m, nn.Linear)] == [7, 4, 3]
    assert mlp.build((5,), 3, hidden=[])(torch.rand(2, 5)).shape == (2, 3)


@pytest.mark.parametrize("shape", [(64,), (1, 3, 8), (8, 8)])
def test_cnn_refuses_what_is_no_image(shape: tuple[int, ...]) -> None:
    with pytest.raises(UserError, match="images"):
        small_cnn.build(shape, 10)


@pytest.mark.parametrize("arguments", [{"width": 0}, {"hidden": -1}, {"dropout": 1.0}])
def test_cnn_refuses_arguments_out_of_range(arguments: dict[str, float]) -> None:
    with pytest.raises(UserError, match="out of range"):
        small_cnn.build((1, 8, 8), 10, **arguments)


@pytest.mark.parametrize("arguments", [{"hidden": [0]}, {"hidden": "64"}, {"hidden": [1.5]}, {"dropout": -0.1}])
def test_mlp_refuses_arguments_out_of_range(arguments: dict[str, object]) -> None:
    with pytest.raises(UserError, match="out of range"):
        mlp.build((4,), 2, **arguments)
