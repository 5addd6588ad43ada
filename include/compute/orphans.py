"""Nothing outlives its job: processes that a job leaves behind become the agent's, and the agent ends them."""

from __future__ import annotations

import ctypes
import os
import signal
import time

from include.compute.process_usage import descendants

_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Become the new parent of descendants whose own parent has died (instead of init)."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_descendants(*, within_s: float = 2.0) -> int:
    """SIGKILL every descendant of this process and collect them. Call it when no child is wanted any more.

    Args:
        within_s: Longest wait; a process stuck in the kernel is left to its own end.

    Returns:
        How many were signalled.
    """
    signalled: set[int] = set()
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        for pid in list(descendants(os.getpid())):
            _kill(pid)
            signalled.add(pid)
        if not _collect():
            break
        time.sleep(0.02)
    return len(signalled)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _collect() -> bool:
    """Reap what has ended; False when no child is left."""
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    except ChildProcessError:
        return False
    return True
