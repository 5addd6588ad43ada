"""Small JSON files by which processes of one machine talk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def write_json(path: Path, value: Any) -> None:  # noqa: ANN401 - any JSON value
    """Replace a file in one step: a reader, or a kill in the middle, never sees half of it."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(json.dumps(value), encoding="utf-8")
    part.replace(path)


def read_json(path: Path) -> Any:  # noqa: ANN401 - any JSON value
    """Content of a file, or None where there is none."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
