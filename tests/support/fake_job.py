"""A job that does what its request says, for tests of the agent: ``fake_job.py <kind> <request-uri>``.

Request keys, all optional: ``base``; ``steps`` and ``step_s`` (progress is written after each step; a notice or SIGTERM
between steps ends the job with 75, and it says so where it is asked for a checkpoint); ``deaf`` (takes no notice of
either); ``child`` (starts a worker in a session of its own that dies with its parent); ``orphan`` (starts a process
that outlives it); ``say`` (a line of output); ``spin_s`` (CPU seconds to burn); ``exit`` (exit code; 0 also writes
``result.json``).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from include.config.settings import Settings
from include.core.json_file import write_json
from include.core.process import die_with_parent
from include.core.store import ObjectStore

JOB_DIR = Path(os.environ["PLIMSOLL_JOB_DIR"])
terminated: list[int] = []


def start_others(request: dict[str, Any]) -> None:
    sleeper = [sys.executable, "-c", "import time; time.sleep(600)"]
    if request.get("child"):
        subprocess.Popen(sleeper, start_new_session=True, preexec_fn=die_with_parent)  # noqa: PLW1509 - as torchrun's
    if request.get("orphan"):
        # The middle process ends at once, so nobody in the job is the sleeper's parent.
        subprocess.run(
            [sys.executable, "-c", f"import subprocess; subprocess.Popen({sleeper!r}, start_new_session=True)"],
            check=True,
        )


def work(request: dict[str, Any]) -> int:
    steps = request.get("steps", 0)
    for step in range(steps):
        time.sleep(request.get("step_s", 0.05))
        write_json(JOB_DIR / "progress.json", {"fraction": (step + 1) / steps, "step": step + 1})
        asked = JOB_DIR / "checkpoint-now"
        if asked.exists():
            asked.unlink()
            print(f"saved at step {step + 1}, going on", flush=True)
        if not request.get("deaf") and ((JOB_DIR / "notice.json").exists() or terminated):
            print(f"leaving at step {step + 1}: {'SIGTERM' if terminated else 'notice'}", flush=True)
            return 75
    return int(request.get("exit", 0))


def spin(seconds: float) -> None:
    while time.process_time() < seconds:
        pass


def main(kind: str, request_uri: str) -> int:
    store = ObjectStore(Settings.from_environment().store)
    request = store.get_json(store.key_of(request_uri))
    signal.signal(signal.SIGTERM, signal.SIG_IGN if request.get("deaf") else lambda *_: terminated.append(1))
    print(f"job {kind} in {JOB_DIR}", flush=True)
    start_others(request)
    if "say" in request:
        print(request["say"], flush=True)
    spin(request.get("spin_s", 0.0))
    code = work(request)
    if code == 0 and "base" in request:
        store.put_json(f"{request['base']}/environment.json", dict(os.environ))
        store.put_json(f"{request['base']}/result.json", {"kind": kind})
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
