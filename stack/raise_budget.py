"""``python -m stack.raise_budget --run <dag>/<run> --usd <more>``: let a run that has spent its budget go on."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation

from include.config.run_record import RunRecord
from include.core.errors import UserError
from include.core.exit_codes import ExitCode
from include.core.ids import run_prefix
from include.core.store import ObjectStore, check_key
from include.ledger.budget import raise_budget
from include.ledger.ledger import Ledger
from stack.cancel import run_named
from stack.child_environment import settings_of
from stack.errors import SettingsError, StackError
from stack.installation import Installation
from stack.ports import WANTED, Ports
from stack.settings_mistakes import read_settings


def main(arguments: Sequence[str] | None = None) -> int:
    """Raise it, and say what to do next.

    Args:
        arguments: Command line; None takes the process's own.

    Returns:
        Exit status: 0, or 64 for a run or an amount that cannot be.
    """
    parser = argparse.ArgumentParser(prog="make raise-budget", description="Raise the budget of one run.")
    parser.add_argument("--run", required=True, help="<dag id>/<run id>")
    parser.add_argument("--usd", required=True, help="US dollars that the run may spend in all")
    options = parser.parse_args(arguments)
    try:
        print(_raise(options.run, options.usd))
    except (UserError, StackError) as error:
        print(error, file=sys.stderr)
        return ExitCode.BAD_INPUT
    return ExitCode.DONE


def _raise(run: str, amount: str) -> str:
    usd = _both(run, amount)
    settings = settings_of(Installation.of(read_settings()), Ports(**WANTED))
    dag_id, run_id = run_named(run)
    raw = ObjectStore(settings.store).get_json(f"{run_prefix(workload=dag_id, run_id=run_id)}/run.json")
    if raw is None:
        raise UserError("no such run", where="RUN", found=run, allowed="<dag id>/<run id> of a run of this store")
    ordered = RunRecord.model_validate(raw).workload.limits.budget_usd
    before = raise_budget(
        Ledger(settings.ledger),
        dag_id=dag_id,
        run_id=run_id,
        ordered=None if ordered is None else Decimal(str(ordered)),
        usd=usd,
    )
    return (
        f"{dag_id} {run_id}: the budget is {usd} USD now, it was {before} USD.\n"
        "Clear the failed task in Airflow: its capacity is launched again, and a training goes on from its newest "
        "committed checkpoint."
    )


def _both(run: str, amount: str) -> Decimal:
    """The amount; every mistake in what was typed is told, one line each."""
    mistakes, usd = [], Decimal(0)
    try:
        check_key(run_prefix(workload=run_named(run)[0], run_id=run_named(run)[1]))
    except SettingsError as error:
        mistakes.append(str(error))
    except UserError:  # a DAG's name that no key can have
        mistakes.append(
            f"no such run | where: RUN | found: {run!r} | allowed: <dag_id>/<run_id> of a run of this store"
        )
    try:
        usd = _usd(amount)
    except UserError as error:
        mistakes.append(str(error))
    if mistakes:
        raise UserError("\n".join(mistakes))
    return usd


def _usd(amount: str) -> Decimal:
    try:
        usd = Decimal(amount)
    except InvalidOperation:
        usd = Decimal("NaN")
    if not usd.is_finite() or usd <= 0:
        raise UserError("not an amount", where="USD", found=repr(amount), allowed="US dollars above 0, such as 12.50")
    return usd


if __name__ == "__main__":
    sys.exit(main())
