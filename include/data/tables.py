"""Bytes of a CSV, JSONL, Parquet, ORC or Feather file to an Arrow table."""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet

from include.core.errors import DataError
from include.data.json_lines import read_json_lines
from include.data.location import TABLE_FORMATS, RawFile, table_format

# Types are inferred over one block: with the whole file in it, a late text value cannot contradict an early number.
_LARGEST_BLOCK = 2**30
_LARGEST_UNPACKED = 4 * 2**30
_DELIMITERS = (",", ";", "\t", "|")


def _delimiter(data: bytes) -> str:
    header = data.split(b"\n", 1)[0].decode("utf-8", errors="replace")
    return max(_DELIMITERS, key=header.count)


def _unpacked(file: RawFile) -> bytes:
    """Content of a file that may be packed with gzip; a small file that unpacks without end is an error."""
    if not file.name.lower().endswith(".gz"):
        return file.data
    data = gzip.GzipFile(fileobj=io.BytesIO(file.data)).read(_LARGEST_UNPACKED + 1)
    if len(data) > _LARGEST_UNPACKED:
        raise DataError(
            "the file is too large when it is unpacked",
            where="data.source",
            found=f"{file.name}: {len(file.data)} bytes unpack to more than {_LARGEST_UNPACKED}",
            todo="split it, or store it as Parquet",
        )
    return data


def _check_utf8(data: bytes, name: str, kind: str) -> None:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"the {kind} is not UTF-8",
            where="data.source",
            found=f"{name}: byte 0x{data[error.start]:02x} at position {error.start} (line {line})",
            allowed="UTF-8",
            todo="save it again as UTF-8, for example: iconv -f LATIN1 -t UTF-8",
        ) from error


def _parsed_csv(data: bytes, convert: pa.csv.ConvertOptions) -> pa.Table:
    return pa.csv.read_csv(
        pa.BufferReader(data),
        read_options=pa.csv.ReadOptions(block_size=min(max(len(data), 2**20), _LARGEST_BLOCK), use_threads=False),
        parse_options=pa.csv.ParseOptions(delimiter=_delimiter(data), newlines_in_values=True),
        convert_options=convert,
    )


def _measures(column: pa.ChunkedArray) -> bool:
    return pa.types.is_floating(column.type) and not pc.all(pc.equal(pc.round(column), column), min_count=0).as_py()


def _read_csv(file: RawFile, label: str) -> pa.Table:
    """Inputs with the types their values suggest, the label as the text that stands in the file.

    Measured values as a label keep their type, by which they are refused.
    """
    data = _unpacked(file)
    if not data.strip():
        raise DataError("the file is empty", where="data.source", found=f"{file.name}: no header line", allowed="a CSV")
    _check_utf8(data, file.name, "CSV")
    table = _parsed_csv(data, pa.csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False))
    if table.column_names.count(label) != 1 or _measures(table[label]):
        return table
    as_written = pa.csv.ConvertOptions(
        include_columns=[label], column_types={label: pa.string()}, null_values=[""], strings_can_be_null=True
    )
    position = table.column_names.index(label)
    return table.set_column(position, label, _parsed_csv(data, as_written)[label])


def _read_jsonl(file: RawFile) -> pa.Table:
    data = _unpacked(file).removeprefix(codecs.BOM_UTF8)
    _check_utf8(data, file.name, "JSONL")
    return read_json_lines(data, name=file.name)


_READERS: dict[str, Callable[[RawFile, str], pa.Table]] = {
    "csv": _read_csv,
    "jsonl": lambda file, _: _read_jsonl(file),
    "parquet": lambda file, _: pa.parquet.read_table(pa.BufferReader(file.data)),
    "orc": lambda file, _: pa.orc.read_table(pa.BufferReader(file.data)),
    "feather": lambda file, _: pa.feather.read_table(pa.BufferReader(file.data)),
}


def read_table(file: RawFile, *, label: str) -> pa.Table:
    """Parse one table file; the format follows from the file name.

    Args:
        file: The file.
        label: Name of the label column. A CSV has no types: its labels are the text as written, empty ones are null.

    Raises:
        DataError: The ending is unknown or the content is not what the ending says.
    """
    kind = table_format(file.name)
    if kind is None:
        raise DataError(
            "unknown kind of file",
            where="data.source",
            found=file.name,
            allowed=f"names ending in {', '.join(TABLE_FORMATS)}",
        )
    try:
        table = _READERS[kind](file, label)
        table.validate(full=True)  # among others, that text is UTF-8
    except (pa.ArrowException, OSError, EOFError, zlib.error) as error:
        raise DataError(
            f"cannot read the {kind} file",
            where="data.source",
            found=f"{file.name}: {str(error).splitlines()[0][:300]}",
            todo="mend or export the file again",
        ) from error
    return table
