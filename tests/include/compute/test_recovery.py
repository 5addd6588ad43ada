"""Every answer of an engine leads to exactly one action."""

from __future__ import annotations

import pytest

from include.compute.recovery import Action, decide
from include.core.contracts.lease import JobPhase, JobState


@pytest.mark.parametrize(
    ("exit_code", "action", "reason"),
    [
        (0, Action.DONE, "done"),
        (75, Action.REPLACE, "preempted"),
        (64, Action.FAIL_INPUT, "bad_input"),
        (1, Action.FAIL_ERROR, "error"),
        (2, Action.FAIL_ERROR, "error"),
        (-9, Action.RETRY_HERE, "signal"),
        (137, Action.RETRY_HERE, "signal"),
        (None, Action.RETRY_HERE, "signal"),
    ],
)
@pytest.mark.parametrize("believed_lost", [True, False])
def test_exit_codes(exit_code: int | None, action: Action, reason: str, believed_lost: bool) -> None:
    decision = decide(JobState(phase=JobPhase.EXITED, exit_code=exit_code), believed_lost=believed_lost)
    assert (decision.action, decision.reason) == (action, reason)


@pytest.mark.parametrize("phase", [JobPhase.QUEUED, JobPhase.RUNNING])
def test_silence_replaces_the_lease(phase: JobPhase) -> None:
    assert decide(JobState(phase=phase), believed_lost=False).action is Action.WAIT
    assert decide(JobState(phase=phase), believed_lost=True).action is Action.REPLACE


def test_a_lost_job_needs_no_suspicion() -> None:
    assert decide(JobState(phase=JobPhase.LOST), believed_lost=False).action is Action.REPLACE
