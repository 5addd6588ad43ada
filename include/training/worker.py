"""``python -m include.training.worker <order-file>``: the process that torchrun starts.

It ties its life to torchrun's, listens for the notice before it imports torch, and leaves an outcome file however it
ends, because torchrun turns every exit code into 0 or 1. No outcome file means that a signal ended it.
"""

from __future__ import annotations

import logging
import os
import sys
import traceback
from pathlib import Path
from typing import NoReturn

from include.core.errors import UserError
from include.core.json_file import write_json
from include.core.process import die_with_parent, own_identity
from include.training.local_files import OUTCOME, STARTED
from include.training.outcome import WorkerOrder, WorkerOutcome
from include.training.stop import StopFlag

_log = logging.getLogger("plimsoll.train")


def run_attempt(order: WorkerOrder, *, stop: StopFlag) -> WorkerOutcome:
    """Train, and turn every failure into an outcome."""
    try:
        from include.training.session import train  # noqa: PLC0415 - imports torch; its failure is an outcome too

        return train(order, stop=stop)
    except UserError as error:
        _log.error("%s", error)
        return WorkerOutcome(status="bad_input", message=str(error))
    except Exception as error:  # noqa: BLE001 - the boundary of the process: every failure becomes an outcome
        _log.error("training failed\n%s", traceback.format_exc())
        return WorkerOutcome(status="error", message=f"{type(error).__name__}: {error}")


def main(order_file: Path) -> NoReturn:
    """Run one attempt and end the process."""
    die_with_parent()
    order = WorkerOrder.model_validate_json(order_file.read_text(encoding="utf-8"))
    stop = StopFlag(order.job_dir)
    stop.listen()
    write_json(order.job_dir / STARTED, own_identity().to_json())
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stdout)
    outcome = run_attempt(order, stop=stop)
    write_json(order.job_dir / OUTCOME, outcome.model_dump(mode="json"))
    sys.stdout.flush()
    sys.stderr.flush()
    # Interpreter teardown of torch costs more than a second. A mistake of a person leaves with 0 as well: it is told
    # by the outcome, and torchrun would bury its one clear line under a traceback.
    os._exit(1 if outcome.status == "error" else 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
