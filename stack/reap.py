"""``make reap``: one pass of the lease reaper from the terminal, without Airflow's scheduler.

The states of runs come from Airflow's API where the stack runs; where it does not, only what has expired is ended.
"""

from __future__ import annotations

import argparse
import functools
import json
import logging
import sys
from collections.abc import Sequence

from include.compute.reap_plan import ReapLimits
from include.compute.reap_report import ReapReport
from include.compute.reaper import reap
from stack.airflow_api import AirflowApi, ApiError
from stack.errors import SettingsError
from stack.exit_status import exit_status
from stack.installation import StackSettings
from stack.looked_at import looked_at
from stack.rented import find_rented
from stack.settings_mistakes import read_settings

_log = logging.getLogger("plimsoll.stack")
_NOT_FOUND = 404
_MOST = 1000


def one_pass(settings: StackSettings, *, cap: int, dry_run: bool) -> ReapReport:
    """Look, judge, end.

    Raises:
        PlimsollError: EC2 or the store does not say what there is.
    """
    rented = find_rented(settings)
    _log.info("looked at: %s", "; ".join(looked_at(rented)))
    if rented.problem:
        _log.error("%s", rented.problem)
    if rented.airflow is None:
        _log.info("No stack runs, so nobody knows which runs live: only what has expired is ended.")
        return reap(
            rented.holdings,
            run_state=lambda dag_id, run_id: None,  # noqa: ARG005 - nobody can be asked
            limits=ReapLimits(cap=cap, expired_only=True),
            dry_run=dry_run,
        )
    return reap(
        rented.holdings,
        run_state=functools.partial(run_state, rented.airflow),
        limits=ReapLimits(cap=cap),
        dry_run=dry_run,
    )


def run_state(airflow: AirflowApi, dag_id: str, run_id: str) -> str | None:
    """State of a run; ``deleted`` for one that Airflow has not got, None where Airflow gives no answer."""
    try:
        return str(airflow.run(dag_id, run_id)["state"])
    except ApiError as error:
        if error.status == _NOT_FOUND:
            return "deleted"
        _log.warning("cannot read the state of %s %s, keeping its capacity: %s", dag_id, run_id, error)
        return None


def cap_of(text: str) -> int:
    """The cap of one pass, in the bounds of the DAG's form.

    Raises:
        SettingsError: It is none.
    """
    number = int(text) if text.isascii() and text.isdecimal() and len(text) <= len(str(_MOST)) else 0
    if not 1 <= number <= _MOST:
        raise SettingsError(
            f"not a number of leases | where: CAP | found: {text!r} | allowed: 1 to {_MOST} | "
            "do: CAP=50, or leave it out"
        )
    return number


def main(arguments: Sequence[str] | None = None) -> int:
    """``make reap``.

    Returns:
        Exit status: 0 when everything that has no right to be there was ended, or in a dry run would be; 1 when
        something could not be asked or ended, or the cap was passed; 64 for settings that cannot be used.
    """
    parser = argparse.ArgumentParser(prog="make reap", description=__doc__)
    parser.add_argument("--dry-run", action="store_true", help="only report")
    parser.add_argument("--cap", default="50", help="most leases that the pass may end")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)

    def act() -> int:
        report = one_pass(read_settings(), cap=cap_of(options.cap), dry_run=options.dry_run)
        print(json.dumps(report.to_json(), indent=2) if options.json else report.table())
        return 1 if report.failed else 0

    return exit_status(act, command="make reap", interrupted="interrupted; `make reap` again goes on.")


if __name__ == "__main__":
    sys.exit(main())
