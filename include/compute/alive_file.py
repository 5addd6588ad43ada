"""The file by which an agent tells the machine's own watchdog that all is well."""

from __future__ import annotations

import logging
from pathlib import Path

_log = logging.getLogger("plimsoll.agent")
VARIABLE = "PLIMSOLL_ALIVE_FILE"


class AliveFile:
    """Touched while all is well; whoever stops touching it lets the machine shut itself down.

    Args:
        path: The file; empty for a machine without a watchdog.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path) if path else None
        self._failed = False

    def touch(self) -> None:
        """Say that all is well. A disk that takes no file is told of once: the machine will then end by itself."""
        if self._path is None:
            return
        try:
            self._path.touch()
        except OSError as error:
            if not self._failed:
                _log.warning("%s cannot be touched: %s", self._path, error)
            self._failed = True
