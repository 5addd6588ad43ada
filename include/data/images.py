"""Pictures in class folders or in WebDataset archives to an Arrow table with a ``pixels`` column."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from PIL import Image

from include.core.errors import DataError
from include.data.location import ARCHIVE_SUFFIX, IMAGE_SUFFIXES, RawFile, shown
from include.data.stream.samples import samples_of

PIXELS = "pixels"
# Stands for the pixels where lists cannot: in the rows that expectations see.
PIXEL_COUNT = "pixel_count"
_DEEP_GREY_MODE = "I;16"
_GREY_MODES = {"1", "L", "LA", _DEEP_GREY_MODE}
# Arrow's list offsets are 32 bit: chunks keep one array far below two billion pixels.
_IMAGES_PER_CHUNK = 512


def image_members(files: tuple[RawFile, ...]) -> tuple[list[RawFile], int]:
    """Files that are images in a class folder, and how many others there are."""
    members = [f for f in files if "/" in f.name and f.name.lower().endswith(IMAGE_SUFFIXES)]
    return members, len(files) - len(members)


def _opened(member: RawFile) -> Image.Image:
    """The header of an image; one that would unpack to far more memory than its file is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        return Image.open(io.BytesIO(member.data))


def _eight_bit(image: Image.Image) -> Image.Image:
    """The image with 8 bits per channel; Pillow's own conversion clips deeper grey values to 255.

    Raises:
        ValueError: The range of the values is unknown.
    """
    if image.mode == _DEEP_GREY_MODE and image.format == "PNG":
        # In a PNG 65535 is white whatever the picture shows, and 65535 / 257 is 255.
        return Image.fromarray(np.rint(np.asarray(image) / 257).astype(np.uint8))
    if image.mode in {"I", "F"} or ";" in image.mode:
        raise ValueError(f"{image.format} with more than 8 bits per channel; save it with 8, or grey as 16-bit PNG")
    return image


def _pixels(member: RawFile, *, channels: int, side: int | None) -> np.ndarray:
    """One image as uint8 [channels, height, width]."""
    converted = _eight_bit(_opened(member)).convert("L" if channels == 1 else "RGB")
    if side is not None and converted.size != (side, side):
        converted = converted.resize((side, side), Image.Resampling.BILINEAR)
    array = np.asarray(converted, dtype=np.uint8)
    return array[None] if channels == 1 else np.ascontiguousarray(array.transpose(2, 0, 1))


def _all_pixels(members: list[RawFile], *, side: int | None) -> Iterator[tuple[RawFile, np.ndarray]]:
    """Decode every image; all that fail are named in one error."""
    channels = _channels(members)
    broken = []
    for member in members:
        try:
            array = _pixels(member, channels=channels, side=side)
        except Exception as error:  # noqa: BLE001 - decoders raise whatever they stumble on; the file is what is wrong
            broken.append(f"{member.name} ({error or type(error).__name__})")
            continue
        yield member, array
    if broken:
        raise DataError(
            f"{len(broken)} of {len(members)} images cannot be used",
            where="data.source.uri",
            found=shown(broken),
            allowed=f"at most {Image.MAX_IMAGE_PIXELS} pixels, 8 bits per channel (16 in a grey PNG)",
            todo="mend or remove these files",
        )


def _channels(members: list[RawFile]) -> int:
    """1 when every image is grey, else 3. Only headers are read."""
    for member in members:
        try:
            mode = _opened(member).mode
        except Exception:  # noqa: BLE001, S112 - named with the others by the decoding pass
            continue
        if mode not in _GREY_MODES:
            return 3
    return 1


def _list_array(images: list[np.ndarray]) -> pa.Array:
    flat = np.concatenate([image.reshape(-1) for image in images])
    offsets = np.arange(len(images) + 1, dtype=np.int32) * images[0].size
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(flat))


def _decode(members: list[RawFile], *, side: int | None) -> tuple[pa.ChunkedArray, tuple[int, int, int]]:
    """Pixels of all images and their common (channels, height, width)."""
    first_of_shape: dict[tuple[int, ...], str] = {}
    chunks: list[pa.Array] = []
    pending: list[np.ndarray] = []
    for member, array in _all_pixels(members, side=side):
        first_of_shape.setdefault(array.shape, member.name)
        if len(first_of_shape) > 1:
            raise DataError(
                "images have different sizes",
                where="data.source.image_size",
                found="; ".join(f"{name} is {shape[1]} x {shape[2]}" for shape, name in first_of_shape.items()),
                todo="set data.source.image_size to scale them to one size",
            )
        pending.append(array)
        if len(pending) == _IMAGES_PER_CHUNK:
            chunks.append(_list_array(pending))
            pending = []
    if pending:
        chunks.append(_list_array(pending))
    channels, height, width = next(iter(first_of_shape))
    return pa.chunked_array(chunks), (channels, height, width)


def read_images(
    files: tuple[RawFile, ...], *, label: str, side: int | None
) -> tuple[pa.Table, list[str], tuple[int, int, int], int]:
    """Decode a class-per-folder tree.

    Args:
        files: All files of the tree.
        label: Name of the label column; its values are the folder names.
        side: Scale every image to this many pixels in height and width; None takes them as they are.

    Returns:
        Table (``pixels`` as list<uint8> in C x H x W order, label), file name of each row, (C, H, W), and the number
        of files that are no images.

    Raises:
        DataError: No images, some that cannot be used, or different sizes without `side`.
    """
    members, others = image_members(files)
    if not members:
        raise DataError(
            "no images in the folder",
            where="data.source.uri",
            found=shown([f.name for f in files]) or "an empty folder",
            allowed=f"one sub-folder per class with files ending in {', '.join(IMAGE_SUFFIXES)}",
        )
    labels = [member.name.split("/")[0] for member in members]
    return *_table(members, labels, label=label, side=side), others


def read_archives(
    files: tuple[RawFile, ...], *, label: str, side: int | None
) -> tuple[pa.Table, list[str], tuple[int, int, int], int]:
    """Decode the samples of WebDataset archives.

    Args:
        files: The archives, and what else lies beside them.
        label: Name of the label column; its values are the texts of the ``.cls`` members.
        side: Scale every image to this many pixels in height and width; None takes them as they are.

    Returns:
        As `read_images`; a row is called by its archive and member.

    Raises:
        DataError: An archive is damaged or hostile, there are no samples, or images that cannot be used.
    """
    members, labels = [], []
    archives = [file for file in files if file.name.lower().endswith(ARCHIVE_SUFFIX)]
    for archive in archives:
        for sample in samples_of(archive.data, where=archive.name):
            name, start, size = sample.image
            members.append(RawFile(name=f"{archive.name}/{name}", data=archive.data[start : start + size]))
            labels.append(sample.label)
    if not members:
        raise DataError(
            "no samples in the archives",
            where="data.source.uri",
            found=shown([archive.name for archive in archives]),
            allowed=f"pictures ({', '.join(IMAGE_SUFFIXES)}), each with a file of the same name that ends in .cls",
        )
    return *_table(members, labels, label=label, side=side), len(files) - len(archives)


def _table(
    members: list[RawFile], labels: list[str], *, label: str, side: int | None
) -> tuple[pa.Table, list[str], tuple[int, int, int]]:
    pixels, shape = _decode(members, side=side)
    return pa.table({PIXELS: pixels, label: pa.array(labels)}), [member.name for member in members], shape
