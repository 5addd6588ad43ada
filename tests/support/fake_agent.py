"""The real agent with a fake job program and short graces: ``fake_agent.py <lease-id> [--emulate-metadata]``."""

from __future__ import annotations

import sys
from pathlib import Path

from include.compute.agent import main
from include.compute.pace import Pace

JOB_COMMAND = (sys.executable, str(Path(__file__).with_name("fake_job.py")))
AGENT_COMMAND = (sys.executable, str(Path(__file__)))
PACE = Pace(
    tick_s=0.1,
    control_s=0.1,
    beat_s=0.5,
    metadata_s=0.2,
    term_grace_s=1.0,
    final_patience_s=1.0,
    unreachable_s=2.5,
)

if __name__ == "__main__":
    sys.exit(main(job_command=JOB_COMMAND, pace=PACE))
