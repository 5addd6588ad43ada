"""How often an agent does what."""

from __future__ import annotations

from dataclasses import dataclass

# Requests to a cloud store cost money and time; a local file costs neither.
_CONTROL_FILE_S = 0.2
_CONTROL_REMOTE_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Intervals and graces of an agent, in seconds.

    Attributes:
        tick_s: Longest nap of the main loop.
        control_s: Between two looks at the stop mark and the queue.
        beat_s: Between two heartbeats.
        metadata_s: Between two questions for a notice.
        term_grace_s: Between SIGTERM and SIGKILL of a job when the agent has to leave.
        final_patience_s: How long the last words of a job are tried against a store that does not answer.
        unreachable_s: Silence of the store after which the agent leaves: by then it counts as lost for everyone else,
            and would only cost money.
        node_silence_s: Silence of another node of the lease after which it counts as lost.
        gather_s: How long the nodes of a lease may take to come together.
    """

    tick_s: float = 0.2
    control_s: float = _CONTROL_FILE_S
    beat_s: float = 1.0
    metadata_s: float = 2.0
    term_grace_s: float = 8.0
    final_patience_s: float = 30.0
    unreachable_s: float = 120.0
    node_silence_s: float = 20.0
    gather_s: float = 300.0

    @classmethod
    def for_store(cls, url: str) -> Pace:
        """The pace that suits a store."""
        return cls(control_s=_CONTROL_FILE_S if url.startswith("file://") else _CONTROL_REMOTE_S)
