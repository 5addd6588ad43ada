"""``make cancel RUN=<dag_id>/<run_id>``: end a run in any state, and prove that nothing of it costs money any more."""

from __future__ import annotations

import argparse
import functools
import json
import logging
import sys
from collections.abc import Sequence
from dataclasses import replace

from include.compute.cancel import cancel_run
from include.compute.cancel_known import is_known
from include.compute.cancel_report import CancelReport
from include.compute.reap_plan import LIVE_RUNS
from include.core.errors import UserError
from stack.airflow_api import AirflowApi, ApiError
from stack.errors import SettingsError
from stack.exit_status import exit_status
from stack.installation import StackSettings
from stack.leases_left import by_process_table
from stack.looked_at import looked_at
from stack.rented import find_rented
from stack.settings_mistakes import read_settings

_NOT_FOUND = 404
_UNTOLD = "Airflow does not run, so its run is not marked failed; should Airflow come up again, the run fails by itself"


def cancel(settings: StackSettings, *, dag_id: str, run_id: str, within_s: float) -> CancelReport:
    """Cancel one run.

    Raises:
        UserError: Nobody knows the run; nothing was done.
    """
    rented = find_rented(settings, patience_s=max(0.0, within_s))
    looked = looked_at(rented)
    by_process = functools.partial(by_process_table, rented.settings)
    if not is_known(
        rented.holdings,
        dag_id=dag_id,
        run_id=run_id,
        in_airflow=functools.partial(in_airflow, rented.airflow, dag_id, run_id),
        also_alive=by_process,
    ):
        raise UserError(
            "nobody knows such a run, nothing was done",
            where=f"RUN, looked at: {'; '.join(looked)}",
            found=repr(f"{dag_id}/{run_id}"),
            allowed="<dag_id>/<run_id> of a run of this installation",
            todo="look at the spelling, and set PLIMSOLL_VAR, _STORE, _LEDGER, _ENGINE and _EC2_REGION as they were "
            "when the run began; `make reap DRY=1` lists what is rented",
        )
    report = cancel_run(
        rented.holdings,
        dag_id=dag_id,
        run_id=run_id,
        mark_failed=functools.partial(mark_failed, rented.airflow, dag_id, run_id),
        also_alive=by_process,
        within_s=within_s,
    )
    return replace(report, looked_at=looked)


def in_airflow(airflow: AirflowApi | None, dag_id: str, run_id: str) -> bool | None:
    """Whether Airflow has a run; False also where Airflow does not run, None where it does not say."""
    if airflow is None:
        return False
    try:
        airflow.run(dag_id, run_id)
    except ApiError as error:
        return False if error.status in {0, _NOT_FOUND} else None
    return True


def mark_failed(airflow: AirflowApi | None, dag_id: str, run_id: str) -> str:
    """Mark a run failed that Airflow holds for live; returns what became of it, for people.

    Raises:
        ApiError: Airflow answers and refuses.
    """
    if airflow is None:
        return _UNTOLD
    try:
        state = str(airflow.run(dag_id, run_id)["state"])
        if state not in LIVE_RUNS:
            return f"it was {state} already"
        airflow.fail_run(dag_id, run_id)
    except ApiError as error:
        if error.status == _NOT_FOUND:
            return "Airflow has no such run"
        if error.status == 0:
            return _UNTOLD
        raise
    return "marked failed"


def run_named(text: str) -> tuple[str, str]:
    """DAG and run of ``<dag_id>/<run_id>``.

    Raises:
        SettingsError: It is none.
    """
    dag_id, _, run_id = text.strip().partition("/")
    if not dag_id or not run_id:
        raise SettingsError(
            f"RUN names no run | found: {text!r} | allowed: <dag_id>/<run_id>, as in the address of the run's page"
        )
    return dag_id, run_id


def main(arguments: Sequence[str] | None = None) -> int:
    """``make cancel``.

    Returns:
        Exit status: 0 when it is proved that nothing is left, 1 when it is not, 64 for a run that is none or that
        nobody knows.
    """
    parser = argparse.ArgumentParser(prog="make cancel", description=__doc__)
    parser.add_argument("--run", required=True, help="<dag_id>/<run_id>")
    parser.add_argument("--within", type=float, default=300.0, help="seconds to wait until all of it is gone")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)

    def act() -> int:
        dag_id, run_id = run_named(options.run)
        report = cancel(read_settings(), dag_id=dag_id, run_id=run_id, within_s=options.within)
        print(json.dumps(report.to_json(), indent=2) if options.json else "\n".join(report.lines()))
        return 0 if report.proved else 1

    return exit_status(
        act, command="make cancel", interrupted="interrupted; the same command again goes on and proves it."
    )


if __name__ == "__main__":
    sys.exit(main())
