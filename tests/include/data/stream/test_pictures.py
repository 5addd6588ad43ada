from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from include.data.stream.pictures import decode


def encoded(kind: str, *, mode: str = "RGB", size: tuple[int, int] = (12, 10), **options: object) -> bytes:
    random = np.random.default_rng(2)
    image = Image.fromarray(random.integers(0, 255, (size[1], size[0], 3), dtype=np.uint8)).convert(mode)
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def decoded(data: bytes, channels: int = 3, width: int = 12, height: int = 10) -> np.ndarray:
    values = decode(data, height=height, width=width, channels=channels)
    return np.frombuffer(values, np.uint8).reshape(height, width, channels)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "BMP"])
def test_every_format_gives_what_pillow_gives(kind: str) -> None:
    data = encoded(kind)
    out = decoded(data)
    assert np.array_equal(out, np.asarray(Image.open(io.BytesIO(data)).convert("RGB")))


@pytest.mark.parametrize(
    ("kind", "mode"), [("JPEG", "L"), ("JPEG", "CMYK"), ("PNG", "RGBA"), ("PNG", "P"), ("PNG", "1")]
)
@pytest.mark.parametrize("channels", [1, 3])
def test_modes_become_those_of_the_row(kind: str, mode: str, channels: int) -> None:
    data = encoded(kind, mode=mode)
    out = decoded(data, channels)
    expected = np.asarray(Image.open(io.BytesIO(data)).convert("L" if channels == 1 else "RGB"))
    assert np.array_equal(out, expected.reshape(out.shape))


def test_other_sizes_are_scaled() -> None:
    out = decoded(encoded("JPEG", size=(64, 48)), width=16, height=16)
    assert 90 < out.mean() < 165


def test_progressive_jpegs_are_read() -> None:
    data = encoded("JPEG", progressive=True)
    out = decoded(data)
    assert np.array_equal(out, np.asarray(Image.open(io.BytesIO(data))))


def test_a_bomb_is_refused_before_it_unpacks(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encoded("JPEG")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(ValueError, match="at most 100"):
        decoded(data, width=6)


@pytest.mark.parametrize("cut", [3, 40, 300])
def test_a_cut_picture_is_an_error(cut: int) -> None:
    with pytest.raises((OSError, ValueError, SyntaxError)):
        decoded(encoded("JPEG")[:cut])
