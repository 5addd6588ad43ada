"""Create the Python environment in ``.venv``: pinned, byte-compiled, torch first; nothing to do when it is current.

Peers that benches compare against get one of their own, ``.venv-bench``.

This program runs before the environment exists, so it uses the standard library alone and only syntax that an older
Python still reads, to be able to say that it is too old.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]
OLDEST, NEWEST = (3, 11), (3, 13)
UV = "uv==0.13.9"
TORCH = "torch==2.13.0"
PROFILES = {"run": "requirements.txt", "test": "requirements/dev.txt", "bench": "requirements/bench.txt"}
# What a finished set-up of a profile covers, and where it lies.
COVERS = {"run": ("run",), "test": ("run", "test"), "bench": ("bench",)}
FOLDERS = {"run": ".venv", "test": ".venv", "bench": ".venv-bench"}
_FREE_BYTES = 8 * 2**30
_SILENCE_S = 10.0
_LINE_LENGTH = 110
_NOISE = ("Requirement already satisfied", "[notice]", "Looking in", "WARNING: Location", "+ ")
_FULL_DISK = r"No space left on device|Errno 28"
_NO_NETWORK = (
    r"name resolution|Name or service not known|Failed to establish a new connection|Connection refused"
    r"|Network is unreachable|dns error|error sending request|Could not connect|ConnectTimeout|Read timed out"
)
_NO_VENV = r"ensurepip is not available|No module named .?(venv|ensurepip)"
_KNOWN_FAILURES = {
    _FULL_DISK: "the disk is full: free some gigabytes and start again",
    _NO_NETWORK: "the package index cannot be reached: check the network, or how pip and uv are told to find it",
    _NO_VENV: "Python's venv module is missing: install it, for example with `apt-get install python3-venv`",
}


class SetupError(Exception):
    """The environment cannot be made; the message is the one line that a person sees."""


class Progress:
    """Lines with elapsed seconds; says that it still works when a step is silent."""

    def __init__(self) -> None:
        """Start counting."""
        self._began = time.monotonic()
        self._last = self._began

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began

    def say(self, line: str) -> None:
        """Print one line, shortened to the width of a terminal."""
        self._last = time.monotonic()
        text = line if len(line) <= _LINE_LENGTH else line[: _LINE_LENGTH - 3] + "..."
        print(f"[{self.seconds:4.0f} s] {text}", flush=True)

    def still(self, what: str, done: threading.Event) -> None:
        """Say every ten silent seconds that a step still runs, until it is done."""
        while not done.wait(1.0):
            if time.monotonic() - self._last >= _SILENCE_S:
                self.say(f"... still {what}")


class Environment:
    """One environment folder with its stamp.

    Args:
        root: Root of the source tree.
        torch: Requirement, wheel path or URL that pip installs torch from.
        torch_index: Index to take torch from, empty for the configured one.
        folder: Name of the environment's folder.
    """

    def __init__(self, root: Path, *, torch: str = TORCH, torch_index: str = "", folder: str = ".venv") -> None:
        """Nothing is touched yet."""
        self.root = root
        self.torch = torch
        self.torch_index = torch_index
        self.folder = root / folder
        self.python = self.folder / "bin" / "python"
        # Both lie inside the folder, so that removing the folder forgets them too.
        self.stamp = self.folder / "plimsoll-stamp.json"
        self.unfinished = self.folder / "plimsoll-unfinished"

    def wanted(self, profile: str) -> dict[str, str]:
        """Stamp that a finished set-up of the profile leaves: the hash of each requirements file it covers."""
        covered = {name: PROFILES[name] for name in COVERS[profile]}
        source = "|".join((self.torch, self.torch_index, UV, "{}.{}".format(*sys.version_info)))
        return {
            name: hashlib.sha256(source.encode() + (self.root / path).read_bytes()).hexdigest()
            for name, path in covered.items()
        }

    def found(self) -> dict[str, str]:
        """Stamp of the last finished set-up, empty where there was none or it was interrupted."""
        if self.unfinished.exists() or not self.python.exists():
            return {}
        try:
            stamp = json.loads(self.stamp.read_text())
        except (OSError, ValueError):
            return {}
        return {str(k): str(v) for k, v in stamp.items()} if isinstance(stamp, dict) else {}

    def is_current(self, profile: str) -> bool:
        """Whether a set-up would change nothing."""
        found = self.found()
        return all(found.get(name) == value for name, value in self.wanted(profile).items())

    def commands(self, profile: str) -> list[tuple[str, list[str]]]:
        """Steps of a set-up: what it does, and the command line."""
        # uv compiles all that is installed, on all cores; pip would use one.
        pip = [str(self.python), "-m", "pip", "install", "--no-compile", "--progress-bar", "off"]
        pip.append("--disable-pip-version-check")
        index = ["--index-url", self.torch_index] if self.torch_index else []
        uv = [str(self.folder / "bin" / "uv"), "pip", "install", "--python", str(self.python), "--compile-bytecode"]
        # The file names all packages but torchvision, which one peer asks for, nobody uses, and no other build of torch
        # than its own can load.
        only = ["--no-deps"] if profile == "bench" else []
        return [
            ("installing torch", [*pip, *index, self.torch]),
            ("installing the installer", [*pip, UV]),
            ("installing and byte-compiling the packages", [*uv, *only, "-r", str(self.root / PROFILES[profile])]),
        ]

    def set_up(self, profile: str, progress: Progress) -> bool:
        """Bring the environment up to date.

        Returns:
            False when it already was.

        Raises:
            SetupError: It cannot be made, with the reason in one line.
        """
        with _only_one(self.root, progress.say):
            if self.is_current(profile):
                return False
            if self.unfinished.exists():
                progress.say("The last set-up was interrupted: starting over with an empty environment")
                shutil.rmtree(self.folder)
            _check_disk(self.root)
            self._create(progress)
            for what, command in self.commands(profile):
                run_step(what, command, progress)
            self.stamp.write_text(json.dumps(self.wanted(profile), indent=2))
            self.unfinished.unlink()
            return True

    def _create(self, progress: Progress) -> None:
        if not self.python.exists():
            progress.say(f"Creating {self.folder} with Python {sys.version.split()[0]}")
            # A folder without a working Python is of no use to anybody.
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir()
            self.unfinished.touch()
            run_step("creating the environment", [sys.executable, "-m", "venv", str(self.folder)], progress)
        self.unfinished.touch()


@contextmanager
def _only_one(root: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Two set-ups of one tree wait for each other."""
    folder = root / "var"
    folder.mkdir(mode=0o700, exist_ok=True)
    with (folder / "setup.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another set-up of this folder is at work: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _check_disk(root: Path) -> None:
    free = shutil.disk_usage(root).free
    if free < _FREE_BYTES:
        has, needs = f"{free / 2**30:.1f}", f"{_FREE_BYTES / 2**30:.0f}"
        raise SetupError(f"{has} GiB are free on the disk of {root}, the environment needs {needs}: free some space")


def run_step(what: str, command: Sequence[str], progress: Progress) -> None:
    """Run one command and show its lines as they come.

    Raises:
        SetupError: It failed; the reason is known or the last thing it said.
    """
    progress.say(what[0].upper() + what[1:])
    environment = {
        k: v for k, v in os.environ.items() if k not in ("PYTHONDONTWRITEBYTECODE", "PYTHONHOME", "PYTHONPATH")
    }
    lines: list[str] = []
    done = threading.Event()
    ticker = threading.Thread(target=progress.still, args=(what, done), daemon=True)
    ticker.start()
    try:
        with subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            assert process.stdout is not None
            for raw in process.stdout:
                line = raw.strip()
                if line:
                    lines.append(line)
                    _show(line, progress)
    except OSError as error:
        raise SetupError(f"{what} failed: {error.strerror or error}") from error
    finally:
        done.set()
        ticker.join()
    if process.returncode:
        raise SetupError(f"{what} failed: {reason(lines)}")


def _show(line: str, progress: Progress) -> None:
    """Keep what tells of progress; hundreds of "already satisfied" tell nothing."""
    if not line.startswith(_NOISE):
        progress.say("  " + line)


def reason(lines: Sequence[str]) -> str:
    """Why a step failed, in one line."""
    text = "\n".join(lines)
    for pattern, message in _KNOWN_FAILURES.items():
        if re.search(pattern, text):
            return message
    errors = [line for line in lines if re.match(r"(?i)(error|fatal|.*\berror:)", line)]
    return (errors or list(lines) or ["no message"])[-1]


def check_python() -> None:
    """Refuse a Python that the pins are not made for.

    Raises:
        SetupError: The running Python is too old or too new.
    """
    if not OLDEST <= sys.version_info[:2] <= NEWEST:
        found, oldest, newest = (".".join(map(str, version)) for version in (sys.version_info[:3], OLDEST, NEWEST))
        raise SetupError(
            f"Python {oldest} to {newest} is needed, this is {found}: install one, or name it (PYTHON=python3.11)"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Set up the environment; exit status 1 with one line when that cannot be done."""
    parser = argparse.ArgumentParser(prog="python3 -m stack.environment", description=__doc__)
    parser.add_argument(
        "--profile",
        choices=sorted(PROFILES),
        default="run",
        help="run: the project; test: its checks too; bench: the peers of benches, in .venv-bench",
    )
    options = parser.parse_args(arguments)
    progress = Progress()
    try:
        check_python()
        environment = Environment(
            REPO,
            torch=os.environ.get("PLIMSOLL_TORCH") or TORCH,
            torch_index=os.environ.get("PLIMSOLL_TORCH_INDEX", ""),
            folder=FOLDERS[options.profile],
        )
        changed = environment.set_up(options.profile, progress)
    except SetupError as error:
        print(f"Set-up: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"Set-up: {reason([str(error)])}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Set-up interrupted; the next start begins it again.", file=sys.stderr)
        return 130
    if changed:
        progress.say("The environment is ready")
    _note_duration(progress.seconds)
    return 0


def _note_duration(seconds: float) -> None:
    """For the summary of the run that follows."""
    (REPO / "var" / "setup_seconds").write_text(f"{seconds:.3f}")


if __name__ == "__main__":
    sys.exit(main())
