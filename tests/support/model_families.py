"""Models of well-known shapes, small enough for a CPU: what memory predictions are fitted on and scored against.

``build(input_shape, classes, ...)`` as the project's own factories; images are (channels, height, width).
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn
from torch.nn import functional


class Stages(nn.Module):
    """Parts one after the other, then a classifier on the mean over all positions."""

    def __init__(self, stem: nn.Module, parts: list[nn.Module], head: nn.Module) -> None:
        super().__init__()
        self.stem, self.parts, self.head = stem, nn.ModuleList(parts), head

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        units = self.stem(images)
        for part in self.parts:
            units = part(units)
        return self.head(units)

    def blocks(self) -> Iterator[nn.Module]:
        yield from self.parts


def convolution(inputs: int, outputs: int, size: int = 3, *, stride: int = 1, groups: int = 1, act: bool = True):
    layers = [
        nn.Conv2d(inputs, outputs, size, stride=stride, padding=size // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    ]
    return nn.Sequential(*layers, nn.ReLU(inplace=True)) if act else nn.Sequential(*layers)


def classifier(channels: int, classes: int) -> nn.Module:
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


class Residual(nn.Module):
    """What a body adds to its input, or to a projection of it."""

    def __init__(self, body: nn.Module, shortcut: nn.Module | None = None, *, act: bool = True) -> None:
        super().__init__()
        self.body, self.shortcut, self.act = body, shortcut, act

    def forward(self, units: torch.Tensor) -> torch.Tensor:
        past = units if self.shortcut is None else self.shortcut(units)
        found = self.body(units) + past
        return functional.relu(found) if self.act else found


def bottleneck(inputs: int, width: int, stride: int) -> nn.Module:
    outputs = 4 * width
    body = nn.Sequential(
        convolution(inputs, width, 1),
        convolution(width, width, 3, stride=stride),
        convolution(width, outputs, 1, act=False),
    )
    same = inputs == outputs and stride == 1
    return Residual(body, None if same else convolution(inputs, outputs, 1, stride=stride, act=False))


def resnet50(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """The order and widths of ResNet-50 (He et al. 2016): 25.6 million parameters at 1000 classes."""
    parts, channels = [], 64
    for width, repeats, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for number in range(repeats):
            parts.append(bottleneck(channels, width, stride if number == 0 else 1))
            channels = 4 * width
    stem = nn.Sequential(convolution(input_shape[0], 64, 7, stride=2), nn.MaxPool2d(3, 2, 1))
    return Stages(stem, parts, classifier(channels, classes))


def inverted(inputs: int, outputs: int, stride: int, expand: int) -> nn.Module:
    middle = inputs * expand
    layers = [convolution(inputs, middle, 1)] if expand > 1 else []
    layers += [convolution(middle, middle, 3, stride=stride, groups=middle), convolution(middle, outputs, 1, act=False)]
    body = nn.Sequential(*layers)
    return Residual(body, act=False) if stride == 1 and inputs == outputs else body


def mobilenet(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """The order and widths of MobileNetV2 (Sandler et al. 2018): depthwise convolutions between wide and narrow."""
    parts, channels = [], 32
    for expand, outputs, repeats, stride in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
    ):  # fmt: skip
        for number in range(repeats):
            parts.append(inverted(channels, outputs, stride if number == 0 else 1, expand))
            channels = outputs
    head = nn.Sequential(convolution(channels, 1280, 1), *classifier(1280, classes))
    return Stages(convolution(input_shape[0], 32, 3, stride=2), parts, head)


class Patches(nn.Module):
    """An image as a row of tokens with places."""

    def __init__(self, channels: int, side: int, patch: int, width: int) -> None:
        super().__init__()
        self.cut = nn.Conv2d(channels, width, patch, stride=patch)
        self.place = nn.Parameter(torch.zeros(1, (side // patch) ** 2, width))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.cut(images).flatten(2).transpose(1, 2) + self.place


class MeanHead(nn.Module):
    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.out(self.norm(tokens).mean(dim=1))


def vit(input_shape: tuple[int, ...], classes: int, *, patch: int = 16, width: int = 384, depth: int = 8) -> nn.Module:
    """An encoder of image patches in the order of ViT (Dosovitskiy et al. 2021), with torch's own encoder layer."""
    layers = [
        nn.TransformerEncoderLayer(
            width, 6, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        for _ in range(depth)
    ]
    return Stages(Patches(input_shape[0], input_shape[1], patch, width), layers, MeanHead(width, classes))


def vgg(input_shape: tuple[int, ...], classes: int, *, width: int = 32) -> nn.Module:
    """Plain convolutions in the order of VGG (Simonyan and Zisserman 2015). For fitting."""
    parts, channels = [], input_shape[0]
    for factor, repeats in ((1, 2), (2, 2), (4, 3), (8, 3)):
        for _ in range(repeats):
            parts.append(convolution(channels, factor * width))
            channels = factor * width
        parts.append(nn.MaxPool2d(2))
    return Stages(nn.Identity(), parts, classifier(channels, classes))


class Dense(nn.Module):
    """A layer that hands on its input beside what it adds."""

    def __init__(self, inputs: int, growth: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.BatchNorm2d(inputs), nn.ReLU(), nn.Conv2d(inputs, 4 * growth, 1, bias=False),
            nn.BatchNorm2d(4 * growth), nn.ReLU(), nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False),
        )  # fmt: skip

    def forward(self, units: torch.Tensor) -> torch.Tensor:
        return torch.cat([units, self.body(units)], dim=1)


def densenet(input_shape: tuple[int, ...], classes: int, *, growth: int = 24) -> nn.Module:
    """A short DenseNet (Huang et al. 2017). For fitting."""
    parts, channels = [], 48
    for repeats in (4, 6, 8):
        for _ in range(repeats):
            parts.append(Dense(channels, growth))
            channels += growth
        parts.append(nn.Sequential(convolution(channels, channels // 2, 1), nn.AvgPool2d(2)))
        channels //= 2
    return Stages(convolution(input_shape[0], 48, 5, stride=2), parts, classifier(channels, classes))


class Separable(nn.Module):
    """A depthwise convolution and a pointwise one."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            convolution(inputs, inputs, 3, stride=stride, groups=inputs), convolution(inputs, outputs, 1)
        )

    def forward(self, units: torch.Tensor) -> torch.Tensor:
        return self.body(units)


def xception(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """Separable convolutions without residuals, in the manner of Xception (Chollet 2017). For fitting."""
    widths = ((32, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2), (512, 512, 1))
    return Stages(
        convolution(input_shape[0], 32, 3, stride=2), [Separable(*w) for w in widths], classifier(512, classes)
    )
