"""YAML to workload, with one clear line per mistake: file, key path, what was found, what is allowed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from include.config.workload import Workload
from include.core.errors import WorkloadError

_LONGEST_FOUND = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadFolder:
    """All workload files of a folder.

    Attributes:
        valid: Workloads by name, in order of file name.
        errors: One error per invalid file, by file.
    """

    valid: dict[str, Workload]
    errors: dict[Path, WorkloadError]


def _found(value: Any) -> str:  # noqa: ANN401 - raw YAML
    text = repr(value)
    return text if len(text) <= _LONGEST_FOUND else f"{text[:_LONGEST_FOUND]}..."


def _allowed_keys(location: tuple[Any, ...]) -> str:
    """Legal keys of the model at a location, for messages about unknown keys."""
    model: Any = Workload
    for part in location:
        field = getattr(model, "model_fields", {}).get(part)
        if field is None:
            return ""
        model = field.annotation
    return ", ".join(getattr(model, "model_fields", {}))


def describe(error: ValidationError) -> list[str]:
    """One line per mistake of a pydantic error."""
    lines = []
    for item in error.errors(include_url=False):
        location = tuple(part for part in item["loc"] if not str(part).startswith("function-"))
        path = ".".join(map(str, location)) or "(file)"
        message = item["msg"].removeprefix("Value error, ")
        if item["type"] == "missing":
            lines.append(f"{path}: missing | allowed: this key is required")
        elif item["type"] == "extra_forbidden":
            allowed = _allowed_keys(location[:-1])
            lines.append(f"{path}: unknown key, found {_found(item['input'])} | allowed: {allowed or 'see the schema'}")
        else:
            lines.append(f"{path}: found {_found(item['input'])} | allowed: {message}")
    return lines


def load_workload(path: Path) -> Workload:
    """Parse one workload file.

    Raises:
        WorkloadError: The file cannot be read or has mistakes; all of them are listed.
    """
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise WorkloadError("cannot read the workload file", where=str(path), found=str(error)) from error
    except yaml.YAMLError as error:
        raise WorkloadError("not a YAML file", where=str(path), found=" ".join(str(error).split())) from error
    if not isinstance(raw, dict):
        raise WorkloadError(
            "a workload file is a mapping", where=str(path), found=_found(raw), allowed="keys: name, ..."
        )
    try:
        return Workload.model_validate(raw)
    except ValidationError as error:
        lines = describe(error)
        head = f"{path.name}: {len(lines)} mistake{'s' if len(lines) > 1 else ''}"
        raise WorkloadError("\n  ".join([head, *lines]), where=str(path)) from error


def load_folder(folder: Path) -> WorkloadFolder:
    """Parse all ``*.yaml`` files of a folder; a broken file never hides the valid ones."""
    valid: dict[str, Workload] = {}
    errors: dict[Path, WorkloadError] = {}
    for path in sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")]):
        try:
            workload = load_workload(path)
        except WorkloadError as error:
            errors[path] = error
            continue
        if workload.name in valid:
            errors[path] = WorkloadError(
                f"{path.name}: name is taken by another file",
                where=str(path),
                found=workload.name,
                allowed="unique names",
            )
            continue
        valid[workload.name] = workload
    return WorkloadFolder(valid=valid, errors=errors)
