"""What a loop of one's own may hand over: checked at the call, since a save fails where nobody looks."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import SupportsFloat

import torch

from include.core.errors import UserError
from include.training.checkpoint_search import FoundCheckpoint

_PREFIX = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=@+-]*(/[A-Za-z0-9][A-Za-z0-9._=@+-]*)*")
_SHOWN = 5


def check_loop(*, run_prefix: str, job_dir: Path, attempt: int, total_steps: int) -> None:
    """Check what a loop is built with.

    Raises:
        UserError: The prefix is no key, the folder is not there, or a number is none.
    """
    if not isinstance(run_prefix, str) or not _PREFIX.fullmatch(run_prefix):
        raise UserError(
            "no prefix of a run",
            where="run_prefix",
            found=repr(run_prefix),
            allowed="names divided by '/', as 'runs/mine'",
        )
    if not job_dir.is_dir():
        raise UserError("there is no such folder", where="job_dir", found=str(job_dir), todo="make it first")
    check_count(attempt, where="attempt", least=1)
    check_count(total_steps, where="total_steps", least=1)


def check_count(value: object, *, where: str, least: int) -> None:
    """Check a whole number.

    Raises:
        UserError: It is none, or too small.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UserError("a whole number is needed", where=where, found=repr(value), allowed=f"{least} or more")


def check_settings(value: object, *, where: str = "settings") -> None:
    """Check that settings mean the same in the next process: their digest decides whether a checkpoint belongs to them.

    Raises:
        UserError: A value is not plain data, such as a set, whose order changes from process to process.
    """
    if value is None or isinstance(value, str | bool | int):
        return
    if isinstance(value, float) and math.isfinite(value):
        return
    if isinstance(value, list | tuple):
        for number, item in enumerate(value):
            check_settings(item, where=f"{where}[{number}]")
        return
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        for key, item in value.items():
            check_settings(item, where=f"{where}.{key}")
        return
    raise UserError(
        "settings hold plain data alone",
        where=where,
        found=f"{type(value).__name__} {value!r}"[:200],
        allowed="texts, finite numbers, true, false, null, lists of them, and mappings with texts as keys",
    )


def check_tensors(tensors: Mapping[str, torch.Tensor], *, where: str) -> None:
    """Check what is to be saved or filled.

    Raises:
        UserError: There is nothing, or something else than tensors by name.
    """
    if not isinstance(tensors, Mapping) or not tensors:
        raise UserError(
            "no tensors",
            where=where,
            found=repr(tensors)[:100],
            allowed="tensors by name: all that the loop goes on with",
        )
    for name, value in tensors.items():
        if not isinstance(name, str) or not isinstance(value, torch.Tensor):
            raise UserError(
                "something is no tensor with a name",
                where=f"{where}[{name!r}]",
                found=f"{type(value).__name__} under a {type(name).__name__}",
                allowed="flat names and tensors; make a tensor of a number",
            )


def check_fits(found: FoundCheckpoint, into: Mapping[str, torch.Tensor]) -> None:
    """Check that a checkpoint is restored in whole: what stays behind would be lost without a word.

    Raises:
        UserError: It has tensors that nobody asked for, lacks one, or holds one of another type.
    """
    left, missing = sorted(found.names - into.keys()), sorted(into.keys() - found.names)
    if left or missing:
        raise UserError(
            "the tensors are not those of the checkpoint",
            where=f"restore from {found.uri}",
            found="; ".join(
                f"{what}: {', '.join(names[:_SHOWN])}{' ...' if len(names) > _SHOWN else ''}"
                for what, names in (("not asked for", left), ("not in it", missing))
                if names
            ),
            allowed="exactly the names that were saved",
        )
    for name, tensor in into.items():
        held = found.layout.tensors[name].dtype
        if held != str(tensor.dtype).removeprefix("torch."):
            raise UserError(
                "a tensor has another type than in the checkpoint",
                where=f"restore from {found.uri}",
                found=f"{name} is {tensor.dtype}",
                allowed=f"torch.{held}",
            )


def plain_number(value: SupportsFloat, *, where: str) -> float:
    """A figure as a float; a tensor of one element counts.

    Raises:
        UserError: It is no number.
    """
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise UserError("a number is needed", where=where, found=f"{type(value).__name__}: {error}") from error
