"""What a running job has at hand."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from include.config.job_messages import JobRequest
from include.config.settings import Settings
from include.core.json_file import write_json
from include.core.node_place import NodePlace
from include.core.store import ObjectStore


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext:
    """Surroundings of one attempt.

    Attributes:
        request: The parsed request.
        settings: Settings of the installation, from the environment that the agent passed on.
        store: The object store.
        job_dir: Private scratch folder; holds ``progress.json`` and ``notice.json``, is never needed by another task.
        node: This node among those that run the attempt together, None for a job on one node. The documents of nodes
            but the first go below the attempt's prefix, and so does `request.base`.
    """

    request: JobRequest
    settings: Settings
    store: ObjectStore
    job_dir: Path
    node: NodePlace | None = None

    def progress(self, *, fraction: float, **details: Any) -> None:  # noqa: ANN401 - shown to people as it is
        """Tell the agent how far the job is; it goes out with the next heartbeat."""
        write_json(self.job_dir / "progress.json", {"fraction": round(fraction, 4), **details})
