"""``make check-workload FILE=...``: every mistake of one workload file, with key path, finding and what is allowed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from include.config.loader import load_workload
from include.core.errors import WorkloadError
from include.core.exit_codes import ExitCode


def main(arguments: Sequence[str]) -> int:
    """Exit status 0 for a valid file, 64 with the list of mistakes for an invalid one."""
    if len(arguments) != 1 or not arguments[0]:
        print("Usage: make check-workload FILE=path/to/workload.yaml", file=sys.stderr)
        return int(ExitCode.BAD_INPUT)
    try:
        workload = load_workload(Path(arguments[0]))
    except WorkloadError as error:
        print(error, file=sys.stderr)
        return int(ExitCode.BAD_INPUT)
    print(f"{arguments[0]}: workload {workload.name!r} is valid.")
    return int(ExitCode.DONE)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
