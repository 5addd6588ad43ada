"""``make docs``: the pages of docs/reference that are written from the code, so that they cannot disagree with it."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from include.config.schema import schema_text
from include.config.settings import Settings
from stack.installation import REPO, StackSettings
from stack.last_run import LastRun

_ROOTS = ("dags", "plugins", "include", "stack")
_NOTE = "<!-- Written by `make docs`; edits are lost. -->\n"
_LAST_RUN = (
    "Written at the end of each `make run`. Null means unknown or not reached, never zero. The JSON Schema is "
    "[last-run.schema.json](last-run.schema.json)."
)
_SETUP_SETTINGS = {
    "PLIMSOLL_TORCH": (
        "`torch==2.13.0`",
        "What pip installs torch from: a requirement, or the path or URL of a wheel.",
    ),
    "PLIMSOLL_TORCH_INDEX": ("", "Package index to take torch from, for example one with CPU builds."),
}


def pages(repo: Path = REPO) -> dict[str, str]:
    """Text of every generated page, by file name below docs/reference."""
    return {
        "settings.md": settings_page(repo),
        "file-map.md": file_map(repo),
        "last-run.md": last_run_page(),
        "last-run.schema.json": json.dumps(LastRun.model_json_schema(), indent=2) + "\n",
        "workload.schema.json": schema_text(),
    }


def settings_page(repo: Path = REPO) -> str:
    """All settings with their defaults."""
    rows = [f"| `{name}` | {default} | {text} |" for name, (default, text) in _SETUP_SETTINGS.items()]
    rows += _setting_rows(StackSettings, repo)
    engine = _setting_rows(Settings, repo)
    head = "| variable | default | meaning |\n|---|---|---|\n"
    return (
        f"{_NOTE}\n# Settings\n\nEvery setting is an environment variable.\n\n## Set-up and stack\n\n{head}"
        + "\n".join(rows)
        + "\n\n## Engine\n\n`make run` derives the store, the ledger, the work folder and the URLs of the servers from "
        + f"`PLIMSOLL_VAR` and the ports; the first three can be set.\n\n{head}"
        + "\n".join(engine)
        + "\n"
    )


def _setting_rows(model: type[BaseModel], repo: Path) -> list[str]:
    rows = []
    for name, field in model.model_fields.items():
        default = "" if field.default in (None, PydanticUndefined) else _shown(field.default, repo)
        rows.append(f"| `PLIMSOLL_{name.upper()}` | {default} | {field.description or _pattern(field)} |")
    return rows


def _shown(value: object, repo: Path) -> str:
    text = ":".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return f"`{text.replace(str(repo), '<repo>')}`"


def _pattern(field: Any) -> str:  # noqa: ANN401 - pydantic's field description
    allowed = [getattr(item, "pattern", None) for item in field.metadata]
    return ", ".join(f"one that matches `{p}`".replace("|", "\\|") for p in allowed if p)


def file_map(repo: Path = REPO) -> str:
    """One line per module: what it is for, from its docstring."""
    lines = [_NOTE, "# File map", ""]
    for root in _ROOTS:
        lines += [f"## {root}/", "", "| file | what it is for |", "|---|---|"]
        lines += [f"| `{path.relative_to(repo)}` | {purpose(path)} |" for path in _modules(repo / root)]
        lines.append("")
    return "\n".join(lines)


def _modules(folder: Path) -> Iterator[Path]:
    return iter(sorted(path for path in folder.rglob("*.py") if "__pycache__" not in path.parts))


def purpose(path: Path) -> str:
    """First line of a module's docstring."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0].replace("|", "\\|")


def last_run_page() -> str:
    """Every key of ``var/last_run.json``."""
    schema = LastRun.model_json_schema()
    parts = [
        _NOTE,
        "# var/last_run.json",
        "",
        _LAST_RUN,
        "",
        *_schema_table(schema),
    ]
    for name, part in schema["$defs"].items():
        parts += ["", f"## {name}", "", part.get("description", ""), "", *_schema_table(part)]
    return "\n".join([*parts, ""])


def _schema_table(schema: dict[str, Any]) -> list[str]:
    rows = [
        f"| `{name}` | {_type_of(part)} | {part.get('description', '')} |"
        for name, part in schema["properties"].items()
    ]
    return ["| key | type | meaning |", "|---|---|---|", *rows]


def _type_of(part: dict[str, Any]) -> str:
    if "$ref" in part:
        return str(part["$ref"]).rpartition("/")[2]
    if "anyOf" in part:
        return " or ".join(_type_of(option) for option in part["anyOf"])
    if part.get("type") == "array":
        return f"list of {_type_of(part.get('items', {}))}"
    return str(part.get("format") or part.get("type") or "any")


def main() -> int:
    """Write all pages."""
    folder = REPO / "docs" / "reference"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text, encoding="utf-8")
        print(f"docs/reference/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
