"""Version of the code that makes results: equal code gives an equal version, with or without git."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

_INCLUDE = Path(__file__).resolve().parents[1]


@cache
def code_version() -> str:
    """Hash of every Python file of the engine, 12 hexadecimal digits. Workload files are inputs, not code."""
    total = hashlib.sha256()
    for path in sorted(_INCLUDE.rglob("*.py")):
        total.update(str(path.relative_to(_INCLUDE)).encode())
        total.update(path.read_bytes())
    return total.hexdigest()[:12]
