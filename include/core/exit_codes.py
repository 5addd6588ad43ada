"""Exit codes of a job process: the whole vocabulary between a job and the agent that runs it."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What a job process says when it ends. Death by a signal has no code: it is a preemption without notice."""

    DONE = 0
    ERROR = 1
    BAD_INPUT = 64
    PREEMPTED = 75
