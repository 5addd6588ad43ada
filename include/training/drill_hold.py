"""Waiting for the notice of an interruption drill, which else comes after the end of a training that lasts a second."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from pathlib import Path

from include.core.json_file import read_json
from include.training.local_files import DRILL_HOLD
from include.training.stop import LOOK_EVERY_S, StopFlag

_log = logging.getLogger("plimsoll.train")
# An agent that looks 20 times a second gives notice within one; after this the drill is given up and training goes on.
LONGEST_S = 5.0


@dataclass(slots=True, kw_only=True)
class DrillHold:
    """Where a training holds, once, until the notice is there.

    Attributes:
        at: Fraction of the training, 0..1; it holds at the first step at or after it.
        longest_s: Seconds after which it goes on without a notice.
    """

    at: float
    longest_s: float = LONGEST_S
    _over: bool = False

    @classmethod
    def of(cls, job_dir: Path) -> DrillHold | None:
        """What the agent has ordered for this attempt; None outside of drills, and without a fraction."""
        told = read_json(job_dir / DRILL_HOLD)
        at = told.get("at") if isinstance(told, dict) else None
        return cls(at=float(at)) if isinstance(at, int | float) and 0.0 <= at <= 1.0 else None

    def due(self, fraction: float) -> bool:
        """Whether to hold now.

        Args:
            fraction: How far the training is, rounded as its progress shows it: the agent decides by what it reads.
        """
        return not self._over and fraction >= self.at

    def wait(self, stop: StopFlag) -> bool:
        """Wait until there is a notice, at most `longest_s`; returns whether there is one."""
        self._over = True
        until = time.monotonic() + self.longest_s
        while not stop.raised():
            if time.monotonic() >= until:
                _log.warning("no notice of the drill within %.0f s, the training goes on", self.longest_s)
                return False
            time.sleep(LOOK_EVERY_S)
        return True
