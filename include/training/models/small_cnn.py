"""A small convolutional network for small images: convolutions that halve the image, one hidden layer, a classifier."""

from __future__ import annotations

import torch
from torch import nn

from include.core.errors import UserError

# Halving stops when the longer side is at most this: flattening a larger map makes the hidden layer explode.
_LARGEST_MAP = 7
_SMALLEST_SIDE = 4
# Channels double with each halving up to this multiple of the width.
_WIDEST = 4
_IMAGE_DIMENSIONS = 3


def _block(channels_in: int, channels_out: int) -> list[nn.Module]:
    # The batch norm brings its own offset, so the convolution has none.
    return [
        nn.Conv2d(channels_in, channels_out, kernel_size=3, padding=1, bias=False),
        nn.BatchNorm2d(channels_out),
        nn.ReLU(),
    ]


def build(
    input_shape: tuple[int, ...], classes: int, *, width: int = 32, hidden: int = 128, dropout: float = 0.3
) -> nn.Module:
    """Build the network.

    Args:
        input_shape: Channels, height, width; both sides at least 4.
        classes: Number of classes.
        width: Channels of the first convolution.
        hidden: Units of the hidden layer.
        dropout: Share of hidden units dropped in training.

    Returns:
        A module from (rows, *input_shape) to logits of shape (rows, classes); the classifier is its last Linear.

    Raises:
        UserError: The input is not an image of at least 4 x 4, or an argument is out of range.
    """
    if len(input_shape) != _IMAGE_DIMENSIONS or min(input_shape[1:]) < _SMALLEST_SIDE:
        raise UserError(
            "the CNN needs images",
            where="model.factory",
            found=f"input shape {tuple(input_shape)}",
            allowed="(channels, height, width) with sides of at least 4",
            todo="set data.image_shape, or use the 'mlp' preset for tables",
        )
    if width < 1 or hidden < 1 or not 0 <= dropout < 1:
        raise UserError(
            "argument out of range",
            where="model.arguments",
            found=f"width={width}, hidden={hidden}, dropout={dropout}",
            allowed="width >= 1, hidden >= 1, 0 <= dropout < 1",
        )
    channels, height, breadth = input_shape
    layers: list[nn.Module] = _block(channels, width)
    channels = width
    while True:
        wider = min(2 * channels, _WIDEST * width)
        layers += [*_block(channels, wider), nn.MaxPool2d(2)]
        channels, height, breadth = wider, height // 2, breadth // 2
        if max(height, breadth) <= _LARGEST_MAP or min(height, breadth) == 1:
            break
    layers += [nn.Flatten(), nn.Linear(channels * height * breadth, hidden), nn.ReLU(), nn.Dropout(dropout)]
    return nn.Sequential(*layers, nn.Linear(hidden, classes)).to(torch.float32)
