"""``make gpu-check``: the tests that need a GPU, or one loud line that there is none and nothing was checked."""

from __future__ import annotations

import subprocess
import sys

from stack.checks import check_environment
from stack.installation import REPO

_ASK = "import torch; print(torch.cuda.get_device_name() if torch.cuda.is_available() else '')"


def main() -> int:
    """Run them; exit status 0 also where there is no GPU."""
    python = str(REPO / ".venv" / "bin" / "python")
    device = subprocess.run([python, "-c", _ASK], capture_output=True, text=True, check=True).stdout.strip()
    if not device:
        line = "SKIPPED: torch finds no GPU on this machine. AMP, FSDP2, peak memory and checkpoint stall: NOT CHECKED."
        print(f"{'=' * len(line)}\n{line}\n{'=' * len(line)}", flush=True)
        return 0
    print(f"GPU: {device}", flush=True)
    command = [python, "-m", "pytest", "-m", "gpu", "--timeout", "900", "tests/gpu"]
    return subprocess.run(command, cwd=REPO, env=check_environment(), check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
