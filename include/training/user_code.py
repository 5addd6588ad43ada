"""The boundary to code that a user wrote: whatever it raises becomes one error that says where."""

from __future__ import annotations

import functools
import logging
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import torch
from torch.distributed import DistError

from include.core.errors import PlimsollError, UserError

_log = logging.getLogger("plimsoll.train")
_Result = TypeVar("_Result")
# What a user's function raises, but did not cause: the caller knows what to do with it.
_NOT_THEIRS = (PlimsollError, MemoryError, torch.OutOfMemoryError, DistError)
_THEIRS = (Exception, SystemExit, KeyboardInterrupt)
_THIS_FILE = Path(__file__)


@contextmanager
def user_code(what: str, *, where: str) -> Iterator[None]:
    """Run code of a user.

    An exit is an error too: without it, the end of the process would be taken for a signal, and tried again.

    Args:
        what: What runs, such as ``the model factory``.
        where: Key of the workload file that names it.

    Raises:
        UserError: It failed; names the kind of error, its text, and the line that raised it.
    """
    try:
        yield
    except _NOT_THEIRS:
        raise
    except _THEIRS as error:
        raise _failure(what, where, error) from error


def guarded(function: Callable[..., _Result], what: str, *, where: str) -> Callable[..., _Result]:
    """A user's function whose errors are told as `user_code` tells them."""

    @functools.wraps(function)
    def call(*arguments: object) -> _Result:
        try:
            return function(*arguments)
        except _NOT_THEIRS:
            raise
        except _THEIRS as error:
            raise _failure(what, where, error) from error

    return call


def _failure(what: str, where: str, error: BaseException) -> UserError:
    _log.info("%s failed\n%s", what, traceback.format_exc())
    return UserError(f"{what} failed", where=where, found=_described(error), todo="mend it, and start again")


def _described(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return f"SyntaxError: {error.msg} ({Path(error.filename or '?').name}, line {error.lineno})"
    text = f"{type(error).__name__}: {error}".removesuffix(": ")
    place = _place(error.__traceback__)
    return f"{text} ({place})" if place else text


def _place(trace: TracebackType | None) -> str:
    """The innermost line outside libraries."""
    frames = [
        frame
        for frame in traceback.extract_tb(trace)
        if "site-packages" not in frame.filename and "importlib" not in frame.filename
        and Path(frame.filename) != _THIS_FILE
    ]  # fmt: skip
    if not frames:
        return ""
    return f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}, in {frames[-1].name}"
