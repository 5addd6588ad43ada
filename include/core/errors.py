"""The exception tree.

PlimsollError
+-- UserError            the person must change something; no retry helps (exit 64)
|   +-- WorkloadError    one or more mistakes in a workload file
|   +-- DataError        the data cannot be used: missing, empty, failing its expectations
|   +-- GateError        no candidate passes the gates, or a limit of the workload was exceeded
|   +-- NothingFitsError no offer fits the demand and the limits
+-- CatalogRefreshError  the vendor's answers make no catalog; the last good one stays
+-- StoreError           the object store answered something unexpected
+-- GroupClosedError     an intent for a group that was already released
|   +-- BudgetExceededError  the intent would exceed a budget or a quota
|   +-- LaunchRefusedError   the provider refuses the launch, and no waiting helps: quota, permission, parameters
+-- NoCapacityError      none of the offers can be had now; waiting may help
+-- QueuedError          the team's quota is used up; the lease waits its turn
+-- PreemptedError       the job stopped at a committed checkpoint because the capacity goes away
"""

from __future__ import annotations


class PlimsollError(Exception):
    """Base of every error that Plimsoll raises on purpose."""


class UserError(PlimsollError):
    """A mistake that only a person can mend.

    Args:
        message: What is wrong, in one sentence.
        where: File, key path, task or URI.
        found: What was found there.
        allowed: What is allowed instead.
        todo: What to do next.
    """

    def __init__(self, message: str, *, where: str = "", found: str = "", allowed: str = "", todo: str = "") -> None:
        parts = [message]
        for label, text in (("where", where), ("found", found), ("allowed", allowed), ("do", todo)):
            if text:
                parts.append(f"{label}: {text}")
        super().__init__(" | ".join(parts))
        self.where = where


class WorkloadError(UserError):
    """One or more mistakes in a workload file; the message has one line per mistake."""


class DataError(UserError):
    """The data cannot be used as it is."""


class GateError(UserError):
    """No candidate passes the gates, or the run exceeded one of its limits."""


class NothingFitsError(UserError):
    """No offer satisfies the demand within the limits."""


class CatalogRefreshError(PlimsollError):
    """The vendor's answers are empty or implausible; the last good catalog stays."""


class StoreError(PlimsollError):
    """The object store gave an answer that no caller can act on."""


class GroupClosedError(PlimsollError):
    """The capacity group was released; only a new launch may reopen it."""


class BudgetExceededError(UserError):
    """The spend that an intent would commit exceeds a budget or a quota."""


class LaunchRefusedError(UserError):
    """The provider refuses the launch for a reason that only a person can mend: a quota, a permission, a parameter."""


class NoCapacityError(PlimsollError):
    """None of the offers of a launch can be had now.

    Args:
        message: What was tried and what each attempt met.
        retry_after_s: Seconds after which another try makes sense.
    """

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class QueuedError(PlimsollError):
    """The quota of a team is used up by live leases: the intent waits its turn.

    Args:
        message: Which quota, by whom it is used, what is asked.
        position: Place in the queue, from 1.
        retry_after_s: Seconds after which another look makes sense.
    """

    def __init__(self, message: str, *, position: int, retry_after_s: float) -> None:
        super().__init__(message)
        self.position = position
        self.retry_after_s = retry_after_s


class PreemptedError(PlimsollError):
    """A job stopped at a committed checkpoint because its capacity goes away.

    Args:
        step: The last optimizer step that is safe in the store.
        checkpoint: URI of the committed checkpoint.
    """

    def __init__(self, *, step: int, checkpoint: str) -> None:
        super().__init__(f"preempted at step {step}, committed {checkpoint}")
        self.step = step
        self.checkpoint = checkpoint
