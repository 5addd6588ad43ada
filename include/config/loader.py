"""YAML to workload, with one clear line per mistake: file, key path, what was found, what is allowed."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from include.config.run_options import RunOptions
from include.config.workload import Workload
from include.config.yaml_text import LONGEST_TEXT_BYTES, parse_yaml
from include.core.errors import UserError, WorkloadError

Model = TypeVar("Model", bound=BaseModel)
_LONGEST_FOUND = 80
# What `describe` is asked about, by the title that pydantic gives its errors.
_ROOTS: dict[str, type[BaseModel]] = {model.__name__: model for model in (Workload, RunOptions)}
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = _LONGEST_FOUND


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
    text = _SHORT.repr(value)
    return text if len(text) <= _LONGEST_FOUND else f"{text[:_LONGEST_FOUND]}..."


def _allowed_keys(location: tuple[Any, ...], *, root: type[BaseModel]) -> str:
    """Legal keys of the model at a location, for messages about unknown keys."""
    candidates: tuple[Any, ...] = (root,)
    for part in location:
        if isinstance(part, int):
            continue  # the members of a list are what its annotation already led to
        fields = [model.model_fields for model in candidates if hasattr(model, "model_fields")]
        holders = [known[part].annotation for known in fields if part in known]
        if holders:
            candidates = get_args(holders[0]) or (holders[0],)
            continue
        # Not a key, so the tag of a discriminated union: keep the member that has this kind.
        candidates = tuple(
            model
            for model in candidates
            if "kind" in getattr(model, "model_fields", {}) and part in get_args(model.model_fields["kind"].annotation)
        )
    return ", ".join(getattr(candidates[0], "model_fields", {})) if candidates else ""


def _key_path(location: tuple[Any, ...], raw: Any) -> str:  # noqa: ANN401 - raw YAML
    """The location as a person would write it, without the names of union members that pydantic puts between."""
    keys = []
    for position, part in enumerate(location):
        last = position == len(location) - 1
        is_tag = isinstance(raw, dict) and raw.get("kind") == part and not last
        inside = (isinstance(raw, dict) and part in raw) or (isinstance(raw, list) and isinstance(part, int))
        if inside and not is_tag:
            keys.append(part)
            raw = raw[part]
        elif last and isinstance(raw, dict):
            keys.append(part)  # the key that is missing
    return ".".join(map(str, keys)) or "(file)"


def _line(item: ErrorDetails, *, location: tuple[Any, ...], path: str, root: type[BaseModel]) -> str:
    if item["type"] == "missing":
        return f"{path}: missing | allowed: this key is required"
    if item["type"] == "extra_forbidden":
        allowed = _allowed_keys(location[:-1], root=root) or "see the schema"
        return f"{path}: unknown key, found {_found(item['input'])} | allowed: {allowed}"
    return f"{path}: found {_found(item['input'])} | allowed: {item['msg'].removeprefix('Value error, ')}"


def _shared(one: ErrorDetails, other: ErrorDetails) -> list[Any]:
    return [part for part, same in zip(one["loc"], other["loc"], strict=False) if part == same]


def describe(error: ValidationError, raw: Any = None, *, root: type[BaseModel] | None = None) -> list[str]:  # noqa: ANN401 - raw YAML
    """One line per mistake of a pydantic error.

    Args:
        error: What pydantic found.
        raw: The mapping that was validated; with it, key paths are those of the file.
        root: The model that refused it; default: by the title of the error.
    """
    root = root or _ROOTS.get(error.title, Workload)
    lines = []
    found = error.errors(include_url=False)
    for item in found:
        if item["type"] == "too_short" and any(
            len(o["loc"]) > len(item["loc"]) == len(_shared(o, item)) for o in found
        ):
            continue  # entries with mistakes of their own are not counted
        location = tuple(part for part in item["loc"] if not str(part).startswith("function-"))
        if raw is not None and location[:1] == ("registry",) and "registry" not in raw:
            continue  # follows from the name, which has a line of its own
        if item["type"] == "string_type" and location[-1:] == ("str",):
            continue  # an entry that is no plain name: the other member of the union says what is wrong with it
        path = ".".join(map(str, location)) or "(file)" if raw is None else _key_path(location, raw)
        lines.append(_line(item, location=location, path=path, root=root))
    return lines


def read_model_file(
    path: Path, model: type[Model], *, what: str, keys: str, todo: str = "", error: type[UserError] = UserError
) -> Model:
    """Read a YAML file that a person writes, of bounded length, and check it.

    Args:
        path: The file.
        model: What has to be in it.
        what: What kind of file it is, for messages.
        keys: What a file of that kind has to hold, for messages.
        todo: What to do about any mistake.
        error: Class of what is raised.

    Raises:
        UserError: Of the class ``error``: the file cannot be read, is too long, or has mistakes, which are all listed.
    """

    def refusal(message: str, found: str = "", allowed: str = "") -> UserError:
        return error(message, where=str(path), found=found, allowed=allowed, todo=todo)

    try:
        with path.open("rb") as file:
            content = file.read(LONGEST_TEXT_BYTES + 1)
    except OSError as cause:
        raise refusal(f"cannot read the {what} file", str(cause)) from cause
    if len(content) > LONGEST_TEXT_BYTES:
        limit = f"{LONGEST_TEXT_BYTES} bytes"
        raise refusal(f"the {what} file is too long", f"more than {limit}", f"up to {limit}")
    try:
        raw = parse_yaml(content.decode("utf-8"))
    except ValueError as cause:
        raise refusal(f"cannot read the {what} file: not a YAML file that can be used", str(cause)) from cause
    if not isinstance(raw, dict):
        raise refusal(f"a {what} file is a mapping", _found(raw), keys)
    try:
        return model.model_validate(raw)
    except ValidationError as cause:
        lines = describe(cause, raw, root=model)
        head = f"{path.name}: {len(lines)} mistake{'s' if len(lines) > 1 else ''}"
        raise refusal("\n  ".join([head, *lines])) from cause


def load_workload(path: Path) -> Workload:
    """Parse one workload file.

    Raises:
        WorkloadError: The file cannot be read or has mistakes; all of them are listed.
    """
    workload = read_model_file(path, Workload, what="workload", keys="keys: name, ...", error=WorkloadError)
    _refuse_unfinished_chain(workload, path)
    return workload


def _refuse_unfinished_chain(workload: Workload, path: Path) -> None:
    """Compression, gates and serving compare classifiers; a training alone may be of any task."""
    training = workload.training
    own = [name for name in ("loss", "metric", "data") if getattr(training, name) is not None]
    if training.task != "classification" or own:
        key = "task" if training.task != "classification" else own[0]
        raise WorkloadError(
            f"{path.name}: training.{key}: the chain after the training knows classification of prepared data alone",
            where=str(path),
            found=str(getattr(training, key)),
            allowed="task: classification, without loss, metric and data of your own",
            todo="train this one by itself: docs/how-to/own-training-loop.md",
        )


def _files(folder: Path) -> list[Path]:
    return sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")])


def _refuse_taken(workload: Workload, path: Path, others: Iterable[tuple[Path, Workload]]) -> None:
    """Two workloads with one of these names would overwrite each other's DAG, model or endpoint."""
    for other_path, other in others:
        for key, mine, theirs in (
            ("name", workload.name, other.name),
            ("registry.model_name", workload.registry.model_name, other.registry.model_name),
            ("serving.endpoint", workload.endpoint, other.endpoint),
        ):
            if mine == theirs:
                raise WorkloadError(
                    f"{path.name}: {key} is taken by another file: {other_path.name}",
                    where=str(path),
                    found=mine,
                    allowed="unique names",
                )


def load_beside(path: Path) -> Workload:
    """Parse one workload file and hold it against the valid files of its folder.

    Raises:
        WorkloadError: As ``load_workload``, or a name of it is taken by another file.
    """
    workload = load_workload(path)
    for sibling in _files(path.parent):
        if sibling.resolve() == path.resolve():
            continue
        try:
            other = load_workload(sibling)
        except WorkloadError:
            continue  # has its own report when it is checked
        _refuse_taken(workload, path, [(sibling, other)])
    return workload


def load_folder(folder: Path) -> WorkloadFolder:
    """Parse all ``*.yaml`` files of a folder; a broken file never hides the valid ones."""
    valid: dict[Path, Workload] = {}
    errors: dict[Path, WorkloadError] = {}
    for path in _files(folder):
        try:
            workload = load_workload(path)
            _refuse_taken(workload, path, valid.items())
        except WorkloadError as error:
            errors[path] = error
        else:
            valid[path] = workload
    return WorkloadFolder(valid={workload.name: workload for workload in valid.values()}, errors=errors)
