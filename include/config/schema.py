"""The JSON Schema of workload files, for editors: ``python -m include.config.schema`` writes the committed copy."""

from __future__ import annotations

import json
from pathlib import Path

from include.config.settings import REPO
from include.config.workload import Workload

SCHEMA_FILE = REPO / "docs" / "reference" / "workload.schema.json"


def schema_text() -> str:
    """The schema as it is committed; equal models give equal text."""
    schema = Workload.model_json_schema()
    # The loader fills it in from the name when the file has none.
    schema["required"].remove("registry")
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return json.dumps({**head, **schema}, indent=2) + "\n"


def write_schema(path: Path = SCHEMA_FILE) -> Path:
    """Write the schema and return where it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(schema_text(), encoding="utf-8")
    return path


if __name__ == "__main__":
    write_schema()
