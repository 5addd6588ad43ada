"""Decode pictures straight into the rows of a batch."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile

Bytes = npt.NDArray[np.uint8]
_JPEG_START = b"\xff\xd8\xff"


def _opened(data: bytes) -> Any:  # noqa: ANN401 - a Pillow image
    # Asking every format in turn costs more than reading a small JPEG.
    return JpegImageFile(io.BytesIO(data)) if data[:3] == _JPEG_START else Image.open(io.BytesIO(data))


def decode_into(data: bytes, out: Bytes) -> None:
    """Decode one picture, scaled to the row if it has another size.

    Args:
        data: The encoded picture.
        out: uint8 [height, width, channels], with 1 or 3 channels; filled.

    Raises:
        OSError: Pillow cannot decode it.
        ValueError: It would unpack to far more memory than any row takes.
    """
    height, width, channels = out.shape
    mode = "L" if channels == 1 else "RGB"
    image = _opened(data)
    if image.size[0] * image.size[1] > (Image.MAX_IMAGE_PIXELS or 0):
        raise ValueError(f"{image.size[0]} x {image.size[1]} pixels, at most {Image.MAX_IMAGE_PIXELS} are allowed")
    if image.size != (width, height):
        image.draft(mode, (width, height))  # a JPEG is then decoded at a fraction of its size
    if image.mode != mode:
        image = image.convert(mode)
    if image.size != (width, height):
        image = image.resize((width, height), Image.Resampling.BILINEAR)
    out[...] = np.frombuffer(image.tobytes(), np.uint8).reshape(out.shape)
