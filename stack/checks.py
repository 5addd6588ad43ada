"""``make test``, ``test-fast``, ``drills`` and ``lint``: the parts one after the other, each with its minutes."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stack.installation import REPO

_BIN = REPO / ".venv" / "bin"
_CLOSING = re.compile(r"^=+ .*\bin \d[\d.]*s.* =+$")
_COUNT = re.compile(r"(\d+) (passed|failed|errors?|skipped)")
_NO_TESTS = 5
_PROCESSES = os.cpu_count() or 1
_SMALL = "not stack and not e2e and not gpu"
_ROOMS = ("--ignore=tests/e2e", "--ignore=tests/drills")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part: commands that all have to pass."""

    name: str
    commands: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a part.

    Attributes:
        name: The part.
        seconds: Wall seconds, measured.
        passed: Whether all commands passed.
        closing: Closing lines of its test runner.
    """

    name: str
    seconds: float
    passed: bool
    closing: tuple[str, ...]


def _pytest(selection: str, *places: str, processes: int = 0) -> tuple[tuple[str, ...], ...]:
    # Whole files to a process: fixtures of a module and servers of a session are then made once.
    spread = ("-n", str(processes), "--dist", "loadfile") if processes else ()
    # Only where such tests are: to collect them all takes longer than to run some of the parts.
    return (("pytest", *spread, *places, "-m", selection),)


PARTS = {
    "lint": Part(
        name="lint", commands=(("ruff", "check", "."), ("ruff", "format", "--check", "."), ("mypy",), ("lint-imports",))
    ),
    "unit": Part(
        name="unit",
        commands=_pytest(f"not integration and not drill and not long and {_SMALL}", *_ROOMS, processes=_PROCESSES),
    ),
    "without stack": Part(
        name="without stack",
        commands=_pytest(
            f"not long and {_SMALL}",
            *("--ignore=tests/e2e", "--ignore=tests/drills/test_stack_drills.py"),
            processes=_PROCESSES,
        ),
    ),
    "stack": Part(
        name="stack",
        commands=_pytest("(e2e or (stack and not drill)) and not long and not gpu", "tests/e2e", "tests/drills"),
    ),
    "all drills": Part(name="all drills", commands=_pytest("(drill or long) and not gpu")),
}
SETS = {
    "lint": ("lint",),
    "test-fast": ("lint", "unit"),
    "test": ("lint", "without stack", "stack"),
    "drills": ("all drills",),
}


def run_part(part: Part, environment: dict[str, str], *, folder: Path = REPO, binaries: Path = _BIN) -> Outcome:
    """Run all commands of a part, even after one has failed: a person wants all the findings at once."""
    began = time.monotonic()
    passed = True
    closing: list[str] = []
    for command in part.commands:
        print(f"\n--- {part.name}: {' '.join(command)}", flush=True)
        status, lines = _stream([str(binaries / command[0]), *command[1:]], environment, folder)
        closing += lines
        if status == _NO_TESTS and command[0] == "pytest":
            print(f"{part.name}: the selection holds no test, so nothing was shown to work", flush=True)
        passed = passed and status == 0
    return Outcome(name=part.name, seconds=time.monotonic() - began, passed=passed, closing=tuple(closing))


def _stream(command: Sequence[str], environment: dict[str, str], folder: Path) -> tuple[int, list[str]]:
    """Show the output as it comes and keep the closing lines of pytest."""
    closing = []
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            sys.stdout.write(line)
            sys.stdout.flush()
            if _CLOSING.match(line.rstrip()):
                closing.append(line.rstrip())
    return process.returncode, closing


def report(outcomes: Sequence[Outcome]) -> str:
    """Table of the parts with their minutes, and the test runner's closing lines again."""
    lines = ["", f"{'part':16} {'minutes':>8}  result"]
    lines += [f"{o.name:16} {o.seconds / 60:8.2f}  {'passed' if o.passed else 'FAILED'}" for o in outcomes]
    lines += [f"{'total':16} {sum(o.seconds for o in outcomes) / 60:8.2f}", ""]
    lines += [line for outcome in outcomes for line in outcome.closing]
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for number, word in _COUNT.findall("\n".join(line for outcome in outcomes for line in outcome.closing)):
        counts["failed" if word.startswith("error") else word] += int(number)
    lines.append(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return "\n".join(lines)


def check_environment() -> dict[str, str]:
    """Environment of the checks: byte code is kept, and numeric libraries do not fight over two cores."""
    kept = {k: v for k, v in os.environ.items() if k not in {"PYTHONDONTWRITEBYTECODE", "MAKEFLAGS", "MAKELEVEL"}}
    return {
        **kept,
        "PATH": f"{_BIN}:{kept.get('PATH', os.defpath)}",
        "OMP_NUM_THREADS": kept.get("OMP_NUM_THREADS", "1"),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one set; exit status 0 only when every part has passed."""
    parser = argparse.ArgumentParser(prog="python -m stack.checks", description=__doc__)
    parser.add_argument("set", choices=sorted(SETS))
    wanted = parser.parse_args(arguments).set
    environment = check_environment()
    outcomes = []
    for name in SETS[wanted]:
        outcomes.append(run_part(PARTS[name], environment))
        print(f"--- {name}: {outcomes[-1].seconds / 60:.2f} minutes", flush=True)
    print(report(outcomes) if wanted != "lint" else "", flush=True)
    return 0 if all(outcome.passed for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
