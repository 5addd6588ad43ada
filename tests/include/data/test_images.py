"""Image trees to pixels in C x H x W order."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from include.core.errors import DataError
from include.data.images import read_archives, read_images
from include.data.location import RawFile, uri_files
from tests.support.streamed import tar
from tests.support.tables import picture, write_pictures


def test_pixels_stand_in_channel_height_width_order() -> None:
    wide = Image.new("RGB", (3, 2))
    wide.putpixel((2, 1), (10, 20, 30))
    out = io.BytesIO()
    wide.save(out, "PNG")
    table, names, shape, others = read_images((RawFile(name="a/x.png", data=out.getvalue()),), label="kind", side=None)
    pixels = np.array(table["pixels"][0].as_py()).reshape(shape)
    assert (names, shape, others) == (["a/x.png"], (3, 2, 3), 0)
    assert pixels[:, 1, 2].tolist() == [10, 20, 30]
    assert pixels.sum() == 60


def test_grey_images_have_one_channel_and_folders_are_labels(tmp_path) -> None:
    files = uri_files(str(write_pictures(tmp_path / "tree", per_class=2, mode="L")), roots=(tmp_path,))
    table, _, shape, _ = read_images(files, label="animal", side=None)
    assert shape == (1, 6, 6)
    assert table["animal"].to_pylist() == ["cat", "cat", "dog", "dog"]


def test_one_colour_image_makes_all_three_channels() -> None:
    files = (
        RawFile(name="a/1.png", data=picture(1, mode="L")),
        RawFile(name="a/2.png", data=picture(2, mode="RGB")),
    )
    assert read_images(files, label="k", side=None)[2] == (3, 6, 6)


def test_images_that_cannot_be_decoded_are_all_named() -> None:
    good = picture(1)
    files = (
        RawFile(name="a/good.png", data=good),
        RawFile(name="a/cut.png", data=good[: len(good) // 2]),
        RawFile(name="b/text.jpg", data=b"hello"),
    )
    with pytest.raises(DataError, match="2 of 3") as caught:
        read_images(files, label="k", side=None)
    assert "a/cut.png" in str(caught.value)
    assert "b/text.jpg" in str(caught.value)
    assert "good.png" not in str(caught.value)


def deep_grey(kind: str, values: np.ndarray) -> bytes:
    out = io.BytesIO()
    Image.fromarray(values).save(out, kind)
    return out.getvalue()


def test_sixteen_bit_grey_pngs_keep_their_shades() -> None:
    data = deep_grey("PNG", np.array([[0, 257, 32896, 65535]], np.uint16))
    table, _, shape, _ = read_images((RawFile(name="a/deep.png", data=data),), label="k", side=None)
    assert (shape, table["pixels"].to_pylist()) == ((1, 1, 4), [[0, 1, 128, 255]])


@pytest.mark.parametrize("dtype", ["uint16", "int32", "float32"])
def test_values_of_unknown_range_are_refused(dtype) -> None:
    deep = RawFile(name="a/deep.tif", data=deep_grey("TIFF", np.full((2, 2), 4000, dtype)))
    with pytest.raises(DataError, match=r"1 of 2.*a/deep\.tif.*more than 8 bits"):
        read_images((deep, RawFile(name="a/1.png", data=picture(1, mode="L"))), label="k", side=None)


@pytest.mark.parametrize("largest", [10, 20, 35])
def test_an_image_with_too_many_pixels_is_named(monkeypatch, largest) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", largest)  # Pillow warns beyond it, and refuses beyond twice as much
    with pytest.raises(DataError, match=rf"1 of 1.*b/huge\.png.*at most {largest} pixels"):
        read_images((RawFile(name="b/huge.png", data=picture(1)),), label="k", side=None)


@pytest.mark.parametrize("error", [KeyError("tag"), IndexError(), EOFError()])
def test_whatever_a_decoder_stumbles_on_names_the_file(monkeypatch, error) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(Image.Image, "convert", fail)
    with pytest.raises(DataError, match=r"a/odd\.png"):
        read_images((RawFile(name="a/odd.png", data=picture(1)),), label="k", side=None)


def test_different_sizes_need_a_side_and_are_scaled_with_it() -> None:
    files = (
        RawFile(name="a/1.png", data=picture(1, side=6)),
        RawFile(name="a/2.png", data=picture(2, side=8)),
    )
    with pytest.raises(DataError, match="image_size") as caught:
        read_images(files, label="k", side=None)
    assert "a/1.png is 6 x 6; a/2.png is 8 x 8" in str(caught.value)
    assert read_images(files, label="k", side=5)[2] == (3, 5, 5)


def test_other_files_are_counted_and_a_folder_without_images_is_refused() -> None:
    readme = RawFile(name="README.md", data=b"about")
    *_, others = read_images((RawFile(name="a/1.png", data=picture(1)), readme), label="k", side=None)
    assert others == 1
    with pytest.raises(DataError, match=r"no images.*README\.md"):
        read_images((readme,), label="k", side=None)


def test_archives_give_the_rows_of_the_same_pictures_in_folders(tmp_path) -> None:
    tree = uri_files(str(write_pictures(tmp_path / "tree", per_class=5)), roots=(tmp_path,))
    members = []
    for file in tree:
        kind, name = file.name.split("/")
        members += [(f"{name[:-4]}.PNG", file.data), (f"{name[:-4]}.cls", f"{kind}\n".encode())]
    archives = (RawFile(name="0.tar", data=tar(members[:8])), RawFile(name="1.tar", data=tar(members[8:])))
    table, names, shape, others = read_archives((*archives, RawFile(name="README", data=b"")), label="k", side=None)
    wanted, _, wanted_shape, _ = read_images(tree, label="k", side=None)
    assert (table, shape, others) == (wanted, wanted_shape, 1)
    assert names[4] == "1.tar/" + members[8][0]


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([("a.jpg", b"1")], "no class"),
        ([("a.cls", b"1")], "no picture"),
        ([("a.jpg", b"1"), ("b.cls", b"1")], "no class"),
        ([("a.jpg", b"1"), ("a.cls", b" ")], "not a name"),
        ([("a.jpg", b"1"), ("a.cls", b"x" * 300)], "not a name"),
        ([("a.jpg", b"1"), ("a.cls", b"\xe9")], "not UTF-8"),
        ([("a.json", b"{}")], "no samples"),
        ([("../a.jpg", b"1")], "leaves its folder"),
        ([("a.jpg", b"1"), ("a.cls", b"1")], "cannot be used"),
    ],
)
def test_archives_that_cannot_be_used_are_refused(members, message) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read_archives((RawFile(name="x.tar", data=tar(members)),), label="k", side=None)
    assert "x.tar" in str(caught.value)
