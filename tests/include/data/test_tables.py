"""CSV, JSONL, Parquet, ORC and Feather give the same rows; broken files are named."""

from __future__ import annotations

import gzip

import pyarrow as pa
import pytest

from include.core.errors import DataError
from include.data import tables
from include.data.location import RawFile
from include.data.tables import read_table
from tests.support.tables import passengers, write_table


def read(name: str, data: bytes, *, label: str = "") -> pa.Table:
    return read_table(RawFile(name=name, data=data), label=label)


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.jsonl", "t.jsonl.gz", "t.parquet", "t.orc", "t.feather"])
def test_every_format_gives_the_same_rows(tmp_path, name) -> None:
    path = write_table(passengers(), tmp_path / name)
    assert read(name, path.read_bytes()).to_pydict() == passengers()


def test_a_late_text_value_makes_the_whole_column_text() -> None:
    data = b"x,y\n" + b"1,2\n" * 400_000 + b"late,2\n"
    assert pa.types.is_string(read("t.csv", data).schema.field("x").type)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_taken_from_the_header(delimiter) -> None:
    data = "\n".join(delimiter.join(row) for row in (("a", "b"), ("1", "2"))).encode()
    assert read("t.csv", data).to_pydict() == {"a": [1], "b": [2]}


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("t.csv", b""),
        ("t.csv", b"a,b\n1,2\n3\n"),
        ("t.csv.gz", b"no gzip"),
        ("t.jsonl", b" \n"),
        ("t.jsonl", b"no json"),
        ("t.jsonl", b'{"a": 1}\n{"a": '),
        ("t.jsonl", b'{"a": 1}\n{"a": "text"}\n'),
        ("t.jsonl", b'{"a": "\xe9"}\n'),
        ("t.jsonl", b"[1, 2]\n"),
        ("t.jsonl.gz", b"no gzip"),
        ("t.parquet", b"no parquet"),
        ("t.orc", b"no orc"),
        ("t.feather", b"no feather"),
        ("t.xlsx", b"anything"),
    ],
)
def test_a_broken_file_is_named(name, data) -> None:
    with pytest.raises(DataError, match=name.replace(".", r"\.")):
        read(name, data)


@pytest.mark.parametrize("labels", [["01", "1"], ["True", "true"], ["NA", "nan", "null"], ["1.0", "1"], ["007", " 7"]])
def test_csv_labels_are_the_text_as_written_and_only_the_empty_one_is_null(labels) -> None:
    rows = [*labels, "", '""']
    data = ("x,y,z\n" + "".join(f"NA,{text},1\n" for text in rows)).encode()
    table = read("t.csv", data, label="y")
    assert table.column_names == ["x", "y", "z"]
    assert table["y"].to_pylist() == [*labels, None, None]
    assert (table["x"].null_count, table["z"].to_pylist()) == (len(rows), [1] * len(rows))


def test_measured_values_as_a_csv_label_stay_numbers() -> None:
    assert read("t.csv", b"x,y\n1,0.5\n2,NA\n", label="y")["y"].to_pylist() == [0.5, None]


@pytest.mark.parametrize(("text", "position", "line"), [("x,größe\n1,2\n", 4, 1), ("x,y\n1,a\n2,café\n", 13, 3)])
@pytest.mark.parametrize("label", ["x", "y"])
def test_a_csv_in_another_encoding_is_named_with_the_place(text, position, line, label) -> None:
    with pytest.raises(DataError, match=rf"not UTF-8.*t\.csv.*position {position} \(line {line}\).*iconv") as caught:
        read("t.csv", text.encode("latin-1"), label=label)
    assert "data.source" in str(caught.value)


def test_text_that_is_not_utf8_in_a_typed_file_is_named(tmp_path) -> None:
    broken = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")])
    path = write_table({"x": broken}, tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"t\.parquet.*UTF8"):
        read("t.parquet", path.read_bytes())


def test_a_key_that_a_line_lacks_is_null() -> None:
    data = b'\xef\xbb\xbf{"a": 1, "b": "x"}\n{"b": "y"}\n{"a": 3.5, "c": true}\n'
    assert read("t.jsonl", data).to_pydict() == {"a": [1, None, 3.5], "b": ["x", "y", None], "c": [None, None, True]}


@pytest.mark.parametrize("name", ["t.csv.gz", "t.jsonl.gz"])
def test_a_small_file_that_unpacks_without_end_is_refused(name, monkeypatch) -> None:
    monkeypatch.setattr(tables, "_LARGEST_UNPACKED", 100_000)
    with pytest.raises(DataError, match="too large when it is unpacked"):
        read(name, gzip.compress(b'{"a": 1}\n' * 100_000))
