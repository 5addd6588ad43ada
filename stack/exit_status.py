"""From what a command raises to its exit status and its lines."""

from __future__ import annotations

import sys
from collections.abc import Callable

from include.core.errors import PlimsollError, UserError
from include.core.exit_codes import ExitCode
from stack.errors import SettingsError

_INTERRUPTED = 130


def exit_status(act: Callable[[], int], *, command: str, interrupted: str) -> int:
    """Carry a command out; every mistake is told in lines that name the command.

    Args:
        act: The command; returns its own status.
        command: Its name, such as ``make reap``.
        interrupted: What a person who ends it by Control-C should know.

    Returns:
        The command's own status; 64 for a mistake of a person, 1 for any other error of ours, 130 for Control-C.
    """
    try:
        return act()
    except (SettingsError, UserError) as error:
        for line in str(error).splitlines():
            print(f"{command}: {line}", file=sys.stderr)
        return ExitCode.BAD_INPUT
    except PlimsollError as error:
        print(f"{command}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{command}: {interrupted}", file=sys.stderr)
        return _INTERRUPTED
