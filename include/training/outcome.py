"""The order that a worker gets and the outcome that it leaves: torchrun passes on neither arguments nor exit codes."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from include.config.job_messages import JobRequest, TrainResult
from include.config.schedule import Edge
from include.config.settings import Settings
from include.core.contracts.measured import Measured
from include.core.node_place import NodePlace


class WorkerOrder(Edge):
    """What the launcher tells the worker, as a file.

    Attributes:
        request: The request.
        settings: Settings of the installation.
        job_dir: Scratch folder of this node.
        node: This node among several, None for a training on one machine.
    """

    request: JobRequest
    settings: Settings
    job_dir: Path
    node: NodePlace | None = None


class WorkerOutcome(Edge):
    """How the worker ended. A worker that leaves none was ended by a signal.

    Attributes:
        status: ``done``, ``preempted`` at a committed checkpoint, ``bad_input`` (a person must act),
            ``out_of_memory`` (another layout may fit), ``peer_lost`` (another worker went away) or ``error``.
        step: Last step that is safe in the store, for ``preempted``.
        checkpoint_uri: Its checkpoint.
        result: The training's result, for ``done``.
        message: What went wrong, for all but ``done`` and ``preempted``.
        measured: Steps and memory of this machine's workers; added by the launcher.
    """

    status: Literal["done", "preempted", "bad_input", "out_of_memory", "peer_lost", "error"]
    step: int = 0
    checkpoint_uri: str = ""
    result: TrainResult | None = None
    message: str = ""
    measured: Measured | None = None
