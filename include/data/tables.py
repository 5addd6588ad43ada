"""Bytes of a CSV, Parquet, ORC or Feather file to an Arrow table."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet

from include.core.errors import DataError
from include.data.location import TABLE_FORMATS, RawFile, table_format

# Types are inferred over one block: with the whole file in it, a late text value cannot contradict an early number.
_LARGEST_BLOCK = 2**30
_DELIMITERS = (",", ";", "\t", "|")


def _delimiter(data: bytes) -> str:
    header = data.split(b"\n", 1)[0].decode("utf-8", errors="replace")
    return max(_DELIMITERS, key=header.count)


def _read_csv(file: RawFile) -> pa.Table:
    data = gzip.decompress(file.data) if file.name.lower().endswith(".gz") else file.data
    if not data.strip():
        raise DataError("the file is empty", where="data.source", found=f"{file.name}: no header line", allowed="a CSV")
    return pa.csv.read_csv(
        pa.BufferReader(data),
        read_options=pa.csv.ReadOptions(block_size=min(max(len(data), 2**20), _LARGEST_BLOCK), use_threads=False),
        parse_options=pa.csv.ParseOptions(delimiter=_delimiter(data), newlines_in_values=True),
        convert_options=pa.csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False),
    )


_READERS: dict[str, Callable[[RawFile], pa.Table]] = {
    "csv": _read_csv,
    "parquet": lambda file: pa.parquet.read_table(pa.BufferReader(file.data)),
    "orc": lambda file: pa.orc.read_table(pa.BufferReader(file.data)),
    "feather": lambda file: pa.feather.read_table(pa.BufferReader(file.data)),
}


def read_table(file: RawFile) -> pa.Table:
    """Parse one table file; the format follows from the file name.

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
        return _READERS[kind](file)
    except (pa.ArrowException, OSError, EOFError, zlib.error) as error:
        raise DataError(
            f"cannot read the {kind} file",
            where="data.source",
            found=f"{file.name}: {str(error).splitlines()[0][:300]}",
            todo="mend or export the file again",
        ) from error
