"""CSV, Parquet, ORC and Feather give the same rows; broken files are named."""

from __future__ import annotations

import pyarrow as pa
import pytest

from include.core.errors import DataError
from include.data.location import RawFile
from include.data.tables import read_table
from tests.support.tables import passengers, write_table


def read(name: str, data: bytes) -> pa.Table:
    return read_table(RawFile(name=name, data=data))


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet", "t.orc", "t.feather"])
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
        ("t.parquet", b"no parquet"),
        ("t.orc", b"no orc"),
        ("t.feather", b"no feather"),
        ("t.xlsx", b"anything"),
    ],
)
def test_a_broken_file_is_named(name, data) -> None:
    with pytest.raises(DataError, match=name.replace(".", r"\.")):
        read(name, data)
