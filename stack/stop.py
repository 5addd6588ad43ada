"""Stop the stack: the supervisor with its programs, exactly what is left of them, and the agents.

The agents go last: an Airflow that still runs would take their end for a loss and launch new ones.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable

from include.compute.stop_all import stop_all
from include.core.errors import PlimsollError
from include.core.exit_codes import ExitCode
from include.core.process import is_alive
from include.core.store import ObjectStore
from stack import child_environment, record
from stack.errors import SettingsError, StackError
from stack.installation import Installation, StackSettings, unusable
from stack.ports import WANTED, Ports
from stack.record import Process, StackRecord
from stack.rented import ec2_engine
from stack.settings_mistakes import read_settings
from stack.start import only_one_start

Say = Callable[[str], None]
_SUPERVISOR_WAIT_S = 40.0
_KILL_WAIT_S = 10.0
_PAUSE_S = 0.1
_INTERRUPTED = 130


def stop(settings: StackSettings, say: Say) -> int:
    """End everything that this installation started, and nothing else. A second stop finds nothing and is harmless.

    Returns:
        How many processes had to be killed after the orderly end.
    """
    installation = Installation.of(settings)
    if not _was_used(installation):
        say(f"Nothing runs in {installation.var}.")
        return 0
    with only_one_start(installation):
        state = record.read(installation)
        killed = _end_programs(installation, state, say) if state else 0
        ended = _end_agents(installation, state)
        record.remove(installation)
    if state is None:
        say(f"No stack runs in {installation.var}; {ended} agents ended.")
    else:
        say(f"The stack is stopped; {killed} left-over processes killed, {ended} agents ended.")
    return killed


def _was_used(installation: Installation) -> bool:
    try:
        return installation.run.exists()
    except OSError as error:  # a folder of somebody else
        raise unusable(installation.var, error) from error


def _end_agents(installation: Installation, state: StackRecord | None) -> int:
    """End the agents of this installation, whether or not a stack runs.

    Raises:
        StackError: An agent cannot be ended.
    """
    ports = state.chosen_ports if state else Ports(**WANTED)
    settings = child_environment.settings_of(installation, ports)
    store = ObjectStore(settings.store)
    # What ran on the stack's own EC2 double has ended with it, and nobody could be asked any more.
    rented = None if ports.ec2 is not None else ec2_engine(store, settings, ports)
    try:
        report = stop_all(store, settings, others=() if rented is None else (rented,))
    except PlimsollError:
        raise
    except Exception as error:
        if rented is None:
            raise
        raise StackError(f"Leases on EC2 cannot be ended: {error}; `make stop` tries again.") from error
    if report.left:
        raise StackError(f"Agents cannot be ended: {', '.join(report.left)}.")
    return len(report.ended)


def _end_programs(installation: Installation, state: StackRecord, say: Say) -> int:
    # What hangs below the supervisor now is written down first: once it has gone, nobody can tell whose they are.
    # And those who follow a run are told that it is no accident.
    state = state.with_family(installation.run).model_copy(update={"stopping": True})
    record.write(installation, state)
    say("Stopping Airflow, MLflow and the model server")
    if state.runs:
        os.kill(state.supervisor.pid, signal.SIGTERM)
        if not wait_gone([state.supervisor], _SUPERVISOR_WAIT_S):
            kill([state.supervisor])
    return kill(state.processes)


def kill(processes: Iterable[Process]) -> int:
    """SIGKILL exactly these processes, if they still are what was recorded.

    Raises:
        StackError: One of them cannot be ended.
    """
    left = [process for process in processes if is_alive(process.identity)]
    for process in left:
        try:
            os.kill(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    if not wait_gone(left, _KILL_WAIT_S):
        pids = ", ".join(str(process.pid) for process in left if is_alive(process.identity))
        raise StackError(f"Processes {pids} cannot be ended.")
    return len(left)


def wait_gone(processes: Iterable[Process], timeout_s: float) -> bool:
    """Wait until all have ended; False when some have not in time."""
    waiting = list(processes)
    deadline = time.monotonic() + timeout_s
    while any(is_alive(process.identity) for process in waiting):
        if time.monotonic() > deadline:
            return False
        time.sleep(_PAUSE_S)
    return True


def main() -> int:
    """``make stop``."""
    try:
        stop(read_settings(), lambda line: print(line, flush=True))
    except SettingsError as error:
        for line in str(error).splitlines():
            print(f"make stop: {line}", file=sys.stderr)
        return ExitCode.BAD_INPUT
    except (StackError, PlimsollError) as error:
        print(f"make stop: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("make stop: interrupted; `make stop` again ends what is left.", file=sys.stderr)
        return _INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main())
