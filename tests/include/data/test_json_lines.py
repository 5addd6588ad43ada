"""JSON lines from anybody: a table, or an error that names the line; never the end of the process."""

from __future__ import annotations

import pyarrow as pa
import pytest

from include.core.errors import DataError
from include.data import json_lines
from include.data.json_lines import read_json_lines


def read(data: bytes) -> pa.Table:
    return read_json_lines(data, name="x.jsonl")


def test_keys_become_columns_with_the_type_of_their_values() -> None:
    lines = b'{"i": 1, "f": 1, "b": true, "t": "\xc3\xa4", "n": null}\r\n\n{"f": 2.5, "i": -3, "d": {"a": [1]}}'
    table = read(lines)
    types = {field.name: field.type for field in table.schema}
    assert types == {
        "i": pa.int64(), "f": pa.float64(), "b": pa.bool_(), "t": pa.string(), "n": pa.null(), "d": pa.struct([])
    }  # fmt: skip
    assert table.select(["i", "f", "b", "t"]).to_pydict() == {
        "i": [1, -3], "f": [1.0, 2.5], "b": [True, None], "t": ["ä", None]
    }  # fmt: skip


def test_integers_beyond_64_bits_become_floats() -> None:
    assert read(b'{"a": 1}\n{"a": 123456789012345678901234567890}')["a"].to_pylist() == [
        1.0,
        123456789012345678901234567890.0,
    ]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (b"null", "NoneType"),
        (b"[1]", "list"),
        (b"{", "Expecting"),
        (b'{"a": 1, "a": 2}', "twice"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": "text"}', "several kinds: int in line 1, str in line 3"),
        (b'{"a": true}', "several kinds"),
        (b'{"a": ' + b"[" * 100_000, "recursion"),
        (b'{"a":' * 100_000, "recursion"),
        (b'{"a": ' + b"9" * 10_000 + b"}", "digits"),
        (b'{"a": 1, "b": "\\ud800"}', "surrogates"),
    ],
)
def test_what_is_no_row_is_refused_with_its_line(line: bytes, found: str) -> None:
    with pytest.raises(DataError, match=found) as caught:
        read(b'{"a": 1}\n\n' + line)
    assert "x.jsonl, line" in str(caught.value)


def test_a_small_file_does_not_become_a_huge_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_lines, "_MOST_CELLS", 1000)
    with pytest.raises(DataError, match="too many"):
        read("\n".join(f'{{"k{number}": 1}}' for number in range(50)).encode())
