"""Where an attempt stands, told from its documents: the same for every engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from include.compute.lease_keys import LeaseKeys
from include.core.clock import Clock, SystemClock
from include.core.contracts.lease import JobPhase, JobState, LeaseState
from include.core.exit_codes import ExitCode
from include.core.store import ObjectStore

# An agent reports the end of a job within milliseconds; one that takes longer hangs, and the result counts without it.
LAST_WORDS_S = 2.0


def poll_job(
    store: ObjectStore,
    *,
    lease_id: str,
    base: str,
    lease_state: Callable[[], LeaseState],
    clock: Clock | None = None,
) -> JobState:
    """Result and heartbeat first; only a job without last words is judged by its lease.

    A result that the agent has not reported yet is waited for, briefly, so that the usage in the last heartbeat is
    final when this returns.

    Args:
        store: The store.
        lease_id: Lease that the job was submitted to.
        base: Store prefix of the attempt.
        lease_state: Asks the engine whether the agent lives; called only when it matters.
        clock: Source of time.
    """
    clock = clock or SystemClock()
    deadline = clock.monotonic() + LAST_WORDS_S
    while True:
        beat, result = _documents(store, base)
        if beat.get("state") == "exited":
            return _exited(int(beat["exit_code"]), result)
        if lease_state() is LeaseState.ENDED:
            return _without_agent(store, lease_id=lease_id, base=base)
        if result is None:
            return JobState(phase=JobPhase.RUNNING if beat else JobPhase.QUEUED)
        if clock.monotonic() >= deadline:
            return _exited(ExitCode.DONE, result)
        clock.sleep(0.1)


def _documents(store: ObjectStore, base: str) -> tuple[dict[str, Any], dict[str, object] | None]:
    """Heartbeat and result. The heartbeat is read first: once it says exited, the result that follows is final."""
    beat = store.get_json(f"{base}/heartbeat.json") or {}
    return beat, store.get_json(f"{base}/result.json")


def _exited(exit_code: int, result: dict[str, object] | None) -> JobState:
    return JobState(phase=JobPhase.EXITED, exit_code=exit_code, result=result, reason=_meaning(exit_code))


def _without_agent(store: ObjectStore, *, lease_id: str, base: str) -> JobState:
    # Read again: the agent may have written its last words just before it left.
    beat, result = _documents(store, base)
    if beat.get("state") == "exited":
        return _exited(int(beat["exit_code"]), result)
    if result is not None:
        # The result is the last thing a job writes, and it is written only on success.
        return _exited(ExitCode.DONE, result)
    return _lost(store, lease_id=lease_id, base=base)


def _lost(store: ObjectStore, *, lease_id: str, base: str) -> JobState:
    lease_beat = store.get_json(LeaseKeys(lease_id).heartbeat) or {}
    how = f"left ({lease_beat['reason']})" if lease_beat.get("state") == "ended" else "died"
    when = "while the job ran" if store.exists(f"{base}/heartbeat.json") else "before the job began"
    return JobState(phase=JobPhase.LOST, reason=f"the agent {how} {when}")


def _meaning(exit_code: int) -> str:
    if exit_code < 0:
        return f"killed by signal {-exit_code}"
    meanings = {
        ExitCode.DONE: "done",
        ExitCode.BAD_INPUT: "bad input",
        ExitCode.PREEMPTED: "preempted with a committed checkpoint",
    }
    return meanings.get(ExitCode(exit_code), "job error") if exit_code in set(ExitCode) else "job error"
