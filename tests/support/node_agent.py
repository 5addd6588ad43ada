"""The real agent with real jobs and short graces, as one node of a lease: ``node_agent.py <lease-id>``."""

from __future__ import annotations

import sys
from pathlib import Path

from include.compute.agent import main
from include.compute.pace import Pace

NODE_COMMAND = (sys.executable, str(Path(__file__)))
PACE = Pace(
    tick_s=0.1,
    control_s=0.1,
    beat_s=0.5,
    metadata_s=0.2,
    term_grace_s=4.0,
    final_patience_s=2.0,
    unreachable_s=10.0,
    node_silence_s=5.0,
    gather_s=30.0,
)

if __name__ == "__main__":
    sys.exit(main(pace=PACE))
