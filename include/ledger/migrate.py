"""Bring a ledger to the newest schema: ``python -m include.ledger.migrate [url]``."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from include.config.settings import Settings
from include.core.errors import UserError
from include.ledger.engine import make_engine

_SCRIPTS = Path(__file__).with_name("migrations")

log = logging.getLogger(__name__)


def migrate(url: str) -> str:
    """Upgrade the ledger to the newest schema; nothing happens when it is there already.

    Any number of processes may do it at once: the whole upgrade is one transaction, and ledger transactions exclude
    each other, so the second one finds the work done.

    Returns:
        The revision the ledger is at now.
    """
    from alembic import command  # noqa: PLC0415 - operators import the ledger, only the start script migrates
    from alembic.config import Config  # noqa: PLC0415 - as above
    from alembic.runtime.migration import MigrationContext  # noqa: PLC0415 - as above

    config = Config()
    # A percent sign in a path would be read as interpolation.
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    engine = make_engine(url)
    try:
        with engine.begin() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
            revision = MigrationContext.configure(connection).get_current_revision()
    finally:
        engine.dispose()
    assert revision is not None
    return revision


def main() -> None:
    """Migrate the ledger of the settings, or the one named on the command line."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        url = sys.argv[1] if len(sys.argv) > 1 else Settings.from_environment().ledger
    except UserError as error:
        raise SystemExit(str(error)) from error
    log.info("ledger is at revision %s", migrate(url))


if __name__ == "__main__":
    main()
