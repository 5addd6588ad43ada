"""What to do about the state of one attempt: a pure function, so that every case can be listed and tested."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from include.core.contracts.lease import JobPhase, JobState
from include.core.exit_codes import ExitCode

# A shell reports death by signal N as 128 + N, Python as -N.
_SIGNAL_BASE = 128


class Action(StrEnum):
    """The next move."""

    WAIT = "wait"
    DONE = "done"
    RETRY_HERE = "retry on the same lease"
    REPLACE = "replace the lease"
    FAIL_INPUT = "fail: bad input"
    FAIL_ERROR = "fail: job error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """An action with the reason that is written into the ledger."""

    action: Action
    reason: str


def decide(state: JobState, *, believed_lost: bool) -> Decision:
    """Choose the next move for one attempt.

    Args:
        state: What the engine says.
        believed_lost: The watcher saw neither the job nor its agent beat for too long.
    """
    if state.phase is JobPhase.EXITED:
        return _after_exit(state.exit_code)
    if state.phase is JobPhase.LOST or believed_lost:
        return Decision(action=Action.REPLACE, reason="lost")
    return Decision(action=Action.WAIT, reason=state.phase.value)


def _after_exit(exit_code: int | None) -> Decision:
    if exit_code == ExitCode.DONE:
        return Decision(action=Action.DONE, reason="done")
    if exit_code == ExitCode.PREEMPTED:
        return Decision(action=Action.REPLACE, reason="preempted")
    if exit_code == ExitCode.BAD_INPUT:
        return Decision(action=Action.FAIL_INPUT, reason="bad_input")
    if exit_code is None or exit_code < 0 or exit_code > _SIGNAL_BASE:
        # The agent lived to report it, so the capacity is fine: a new attempt needs no new lease.
        return Decision(action=Action.RETRY_HERE, reason="signal")
    return Decision(action=Action.FAIL_ERROR, reason="error")
