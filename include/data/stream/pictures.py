"""Decode pictures to the bytes of a row."""

from __future__ import annotations

import io
from typing import Any

from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile

_JPEG_START = b"\xff\xd8\xff"
# ITU-T T.81, table B.1: frames of baseline, extended and progressive JPEGs with Huffman codes.
_FRAMES = (0xC0, 0xC1, 0xC2)
_START_OF_SCAN = 0xDA


def _jpeg_frame(data: bytes) -> tuple[int, int, int] | None:
    """Width, height and components of a JPEG with 8 bits per value; None where that is not plainly said."""
    at = 2
    try:
        while data[at] == 0xFF and data[at + 1] != _START_OF_SCAN:  # noqa: PLR2004 - every marker starts with it
            if data[at + 1] in _FRAMES:
                height, width = data[at + 5] << 8 | data[at + 6], data[at + 7] << 8 | data[at + 8]
                return (width, height, data[at + 9]) if data[at + 4] == 8 else None  # noqa: PLR2004 - bits
            at += 2 + (data[at + 2] << 8 | data[at + 3])
    except IndexError:
        return None
    return None


def _opened(data: bytes) -> Any:  # noqa: ANN401 - a Pillow image
    # Asking every format in turn costs more than reading a small JPEG.
    return JpegImageFile(io.BytesIO(data)) if data[:3] == _JPEG_START else Image.open(io.BytesIO(data))


def decode(data: bytes, *, height: int, width: int, channels: int) -> bytes:
    """Decode one picture, scaled if it has another size.

    Args:
        data: The encoded picture.
        height: Rows of the result.
        width: Columns of the result.
        channels: 1 (grey) or 3 (red, green, blue).

    Returns:
        Its values in the order rows, columns, channels.

    Raises:
        OSError: Pillow cannot decode it.
        ValueError: It is cut off, or would unpack to far more memory than a picture takes.
    """
    mode = "L" if channels == 1 else "RGB"
    if data[:3] == _JPEG_START and _jpeg_frame(data) == (width, height, channels):
        # Straight to Pillow's decoder: half the time of a small picture otherwise goes into its file object.
        return Image.frombytes(mode, (width, height), data, "jpeg", mode, "").tobytes()
    image = _opened(data)
    if image.size[0] * image.size[1] > (Image.MAX_IMAGE_PIXELS or 0):
        raise ValueError(f"{image.size[0]} x {image.size[1]} pixels, at most {Image.MAX_IMAGE_PIXELS} are allowed")
    if image.size != (width, height):
        image.draft(mode, (width, height))  # a JPEG is then decoded at a fraction of its size
    if image.mode != mode:
        image = image.convert(mode)
    if image.size != (width, height):
        image = image.resize((width, height), Image.Resampling.BILINEAR)
    return image.tobytes()
