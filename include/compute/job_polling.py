"""Where an attempt stands, told from its documents: the same for every engine."""

from __future__ import annotations

from collections.abc import Callable

from include.compute.lease_keys import LeaseKeys
from include.core.contracts.lease import JobPhase, JobState, LeaseState
from include.core.exit_codes import ExitCode
from include.core.store import ObjectStore


def poll_job(store: ObjectStore, *, lease_id: str, base: str, lease_state: Callable[[], LeaseState]) -> JobState:
    """Result and heartbeat first; only a job without last words is judged by its lease.

    Args:
        store: The store.
        lease_id: Lease that the job was submitted to.
        base: Store prefix of the attempt.
        lease_state: Asks the engine whether the agent lives; called only when it matters.
    """
    if ended := _last_words(store, base):
        return ended
    if lease_state() is LeaseState.ENDED:
        # The agent may have written them between the two looks.
        return _last_words(store, base) or _lost(store, lease_id=lease_id, base=base)
    begun = store.exists(f"{base}/heartbeat.json")
    return JobState(phase=JobPhase.RUNNING if begun else JobPhase.QUEUED)


def _last_words(store: ObjectStore, base: str) -> JobState | None:
    # The heartbeat is read first: once it says exited, the result that follows is final.
    beat = store.get_json(f"{base}/heartbeat.json") or {}
    result = store.get_json(f"{base}/result.json")
    if beat.get("state") == "exited":
        exit_code = int(beat["exit_code"])
        return JobState(phase=JobPhase.EXITED, exit_code=exit_code, result=result, reason=_meaning(exit_code))
    if result is not None:
        # The result is the last thing a job writes, and it is written only on success.
        return JobState(phase=JobPhase.EXITED, exit_code=ExitCode.DONE, result=result, reason="done")
    return None


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
