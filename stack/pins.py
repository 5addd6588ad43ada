"""``make pins``: resolve requirements/*.in to pinned files.

torch's CUDA packages are left out: which of them are needed depends on the torch build that a machine takes, and that
one is installed first, with its own. Everything else is the same for all.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from stack.installation import REPO

_PYTHON = "3.11"  # the oldest supported one; pins that hold there hold on later ones too
# torchvision is asked for by a peer of a bench alone, and is of one build of torch as well.
_CUDA = re.compile(r"^(nvidia-(cu|nccl|nv[jst])|cuda-|triton|torchvision==)")
_ALL = "requirements/dev.txt"
# File -> inputs. The first file holds every pin, and the others take theirs from it.
TARGETS = {
    _ALL: ("airflow", "worker", "packing", "dev"),
    "requirements.txt": ("airflow", "worker"),
    "requirements/worker.txt": ("worker",),
    "requirements/airflow.txt": ("airflow",),
    "requirements/packing.txt": ("packing",),
    "requirements/bench.txt": ("worker", "bench"),
}


def compile_command(target: str, repo: Path) -> list[str]:
    """Command line that resolves one target and prints the pins."""
    inputs = [str(repo / "requirements" / f"{name}.in") for name in TARGETS[target]]
    constraints = [] if target == _ALL else ["--constraint", str(repo / _ALL)]
    quiet = ["--quiet", "--no-annotate", "--no-header", "--no-emit-index-url"]
    return [str(repo / ".venv/bin/uv"), "pip", "compile", *quiet, "--python-version", _PYTHON, *inputs, *constraints]


def without_cuda(text: str) -> str:
    """The pins without the packages that belong to one build of torch."""
    return "".join(line for line in text.splitlines(keepends=True) if not _CUDA.match(line))


def main() -> int:
    """Write all pinned files; exit status 1 with the resolver's words when there is no solution."""
    for target in TARGETS:
        answer = subprocess.run(compile_command(target, REPO), capture_output=True, text=True, check=False, cwd=REPO)
        if answer.returncode:
            print(f"{target}: {answer.stderr.strip()}", file=sys.stderr)
            return 1
        pins = without_cuda(answer.stdout)
        (REPO / target).write_text(pins)
        print(f"{target}: {len(pins.splitlines())} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
