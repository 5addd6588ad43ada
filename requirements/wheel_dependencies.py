"""Build hook: the worker wheel depends on what requirements/worker.in lists, so the list stands in one place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


def worker_dependencies(root: Path) -> list[str]:
    """Requirements of the worker, without comments and empty lines."""
    lines = (root / "requirements" / "worker.in").read_text(encoding="utf-8").splitlines()
    stripped = (line.partition("#")[0].strip() for line in lines)
    return [line for line in stripped if line]


class WorkerDependencies(MetadataHookInterface):
    """Fills the dynamic ``dependencies`` field of pyproject.toml."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Called by hatchling when it builds."""
        metadata["dependencies"] = worker_dependencies(Path(self.root))
