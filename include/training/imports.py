"""From an import path in a workload file to a function, inside the allowed packages alone."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

from include.core.errors import UserError
from include.training.user_code import user_code


def load_callable(path: str, *, packages: tuple[str, ...], where: str, what: str = "function") -> Any:  # noqa: ANN401 - whatever stands at the import path
    """The function at ``<module>:<name>``.

    Args:
        path: The import path.
        packages: Where it may point.
        where: Key of the workload file, for the message.
        what: What it is, for the message.

    Raises:
        UserError: The path points elsewhere, its module cannot be imported, or there is nothing to call.
    """
    module_name, _, function_name = path.partition(":")
    allowed = any(module_name == package or module_name.startswith(f"{package}.") for package in packages)
    found = None
    if allowed:  # checked here too: this is the line that imports
        with user_code(f"the import of {module_name}", where=where):
            found = getattr(_imported(module_name), function_name, None)
    if not callable(found):
        raise UserError(
            f"no such {what}", where=where, found=path, allowed=f"'<module>:<function>' in {', '.join(packages)}"
        )
    return found


def _imported(name: str) -> ModuleType | None:
    """The module, None where there is none; what it imports itself has to be there."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not name.startswith(error.name):
            raise
        return None
