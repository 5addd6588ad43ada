"""Small source files for tests of the data room."""

from __future__ import annotations

import gzip
import io
import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet
from PIL import Image

from include.config.data_section import DataSection


def passengers(rows: int = 120) -> dict[str, list[Any]]:
    """Columns of mixed types; every row is different, the label has two balanced classes."""
    chance = random.Random(3)
    return {
        "age": [None if i % 11 == 0 else round(chance.uniform(1, 80), 3) for i in range(rows)],
        "fare": [i / 7 for i in range(rows)],
        "port": [("north", "south", None, "west")[i % 4] for i in range(rows)],
        "alone": [i % 3 == 0 for i in range(rows)],
        "survived": [i % 2 for i in range(rows)],
    }


def write_table(columns: dict[str, list[Any]], path: Path) -> Path:
    """Write columns in the format that the name asks for."""
    table = pa.table(columns)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.name.endswith(".csv"):
        pa.csv.write_csv(table, path)
    elif path.name.endswith(".csv.gz"):
        with pa.CompressedOutputStream(str(path), "gzip") as out:
            pa.csv.write_csv(table, out)
    elif ".jsonl" in path.name:
        lines = "".join(json.dumps(row) + "\n" for row in table.to_pylist()).encode()
        path.write_bytes(gzip.compress(lines) if path.suffix == ".gz" else lines)
    elif path.suffix == ".parquet":
        pa.parquet.write_table(table, path)
    elif path.suffix == ".orc":
        pa.orc.write_table(table, str(path))
    else:
        pa.feather.write_feather(table, str(path))
    return path


def picture(number: int, *, side: int = 6, mode: str = "RGB") -> bytes:
    """A PNG whose pixels depend on the number."""
    chance = random.Random(number)
    pixels = bytes(chance.randrange(256) for _ in range(side * side * len(mode)))
    out = io.BytesIO()
    Image.frombytes(mode, (side, side), pixels).save(out, "PNG")
    return out.getvalue()


def write_pictures(folder: Path, *, per_class: int = 30, side: int = 6, mode: str = "RGB") -> Path:
    """A tree with the classes ``cat`` and ``dog``."""
    for number in range(2 * per_class):
        member = folder / ("cat" if number % 2 else "dog") / f"{number:03d}.png"
        member.parent.mkdir(parents=True, exist_ok=True)
        member.write_bytes(picture(number, side=side, mode=mode))
    return folder


def section(uri: str, *, label: str = "survived", **more: Any) -> DataSection:
    """A ``data`` section for a URI."""
    source = {"kind": "uri", "uri": uri, "image_size": more.pop("image_size", None)}
    return DataSection.model_validate({"source": source, "label": label, **more})
