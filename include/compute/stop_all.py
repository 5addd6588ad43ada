"""``python -m include.compute.stop_all [--dry-run]``: end every agent of this machine, by pid and start time."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterable, Sequence
from typing import Protocol

from include.compute.damage import sort_out
from include.compute.engines.local import LocalEngine
from include.config.settings import Settings
from include.core.contracts.lease import LeaseState, ReleaseReport
from include.core.errors import UserError
from include.core.exit_codes import ExitCode
from include.core.store import ObjectStore

_log = logging.getLogger("plimsoll.compute")


class _Engine(Protocol):
    """An engine that can end all it has."""

    def stop_all(self, *, reason: str) -> ReleaseReport:
        """End every lease of this installation that still lives."""
        ...


def stop_all(store: ObjectStore, settings: Settings, *, others: Iterable[_Engine] = ()) -> ReleaseReport:
    """End every agent that still lives; idempotent.

    Args:
        store: The object store.
        settings: Settings of the installation.
        others: Engines besides this machine's, for example the one for EC2.
    """
    engines = (LocalEngine(store, settings), *others)
    reports = [engine.stop_all(reason="installation stopped") for engine in engines]
    ended = {lease: how for report in reports for lease, how in report.ended.items()}
    return ReleaseReport(ended=ended, left=tuple(lease for report in reports for lease in report.left))


def main(arguments: Sequence[str] | None = None) -> int:
    """End them, or with ``--dry-run`` only list them.

    Args:
        arguments: Command line; None takes the process's own.

    Returns:
        Exit status: 0 when nothing is left alive, else 1; 64 for settings that cannot be used. In the list the control
        lease, which all runs share and which belongs to none, does not count.
    """
    parser = argparse.ArgumentParser(prog="stop_all", description="End every agent of this machine.")
    parser.add_argument("--dry-run", action="store_true", help="only list what is alive")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    try:
        settings = Settings.from_environment()
    except UserError as error:
        _log.error("%s", error)
        return ExitCode.BAD_INPUT
    store = ObjectStore(settings.store)
    if settings.engine != LocalEngine.name:
        _log.warning("Leases on EC2 are not looked at here: `make reap DRY=1` lists them, `make stop` ends them.")
    if options.dry_run:
        return _list_alive(LocalEngine(store, settings))
    report = stop_all(store, settings)
    for lease_id, how in sorted(report.ended.items()):
        _log.info("lease %s: %s", lease_id, "still alive" if lease_id in report.left else how)
    _log.info("%d ended, %d left", len(report.ended) - len(report.left), len(report.left))
    return 1 if report.left else 0


def _list_alive(engine: LocalEngine) -> int:
    found, damaged = sort_out(engine.find)
    alive = [lease for lease in found if lease.state is not LeaseState.ENDED]
    for lease in alive:
        owner = f"run {lease.run_id} of {lease.dag_id}" if lease.run_id else "shared by all runs"
        _log.info("lease %s: %s, %s", lease.lease_id, lease.state, owner)
    for problem in damaged.values():
        _log.error("%s", problem)
    of_runs = sum(bool(lease.run_id) for lease in alive)
    _log.info("%d alive: %d of runs, %d shared by all runs", len(alive), of_runs, len(alive) - of_runs)
    return 1 if of_runs or damaged else 0


if __name__ == "__main__":
    sys.exit(main())
