"""``python -m include.compute.stop_all``: end every agent of this installation, by pid and start time."""

from __future__ import annotations

import logging
import sys

from include.compute.local import LocalEngine
from include.config.settings import Settings
from include.core.contracts.lease import ReleaseReport
from include.core.store import ObjectStore

_log = logging.getLogger("plimsoll.compute")


def stop_all(store: ObjectStore, settings: Settings) -> ReleaseReport:
    """End every agent that still lives; idempotent."""
    return LocalEngine(store, settings).stop_all(reason="installation stopped")


def main() -> int:
    """Exit status 0 when nothing is left, else 1."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    settings = Settings.from_environment()
    report = stop_all(ObjectStore(settings.store), settings)
    for lease_id, how in sorted(report.ended.items()):
        _log.info("lease %s: %s", lease_id, how)
    for lease_id in report.left:
        _log.error("lease %s: still alive", lease_id)
    _log.info("%d ended, %d left", len(report.ended) - len(report.left), len(report.left))
    return 1 if report.left else 0


if __name__ == "__main__":
    sys.exit(main())
