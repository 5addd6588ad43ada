"""``python -m include.training.worker <order-file>``: the process that torchrun starts, once per worker.

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
from include.training.local_files import NOTICE, OUTCOME, STARTED, folder_of
from include.training.outcome import WorkerOrder, WorkerOutcome
from include.training.stop import LOOK_EVERY_S, StopFlag

_log = logging.getLogger("plimsoll.train")


def run_attempt(order: WorkerOrder, *, stop: StopFlag) -> WorkerOutcome:
    """Train, and turn every failure into an outcome."""
    try:
        from include.training.session import train  # noqa: PLC0415 - imports torch; its failure is an outcome too

        return train(order, stop=stop)
    except UserError as error:
        _log.error("%s", error)
        return WorkerOutcome(status=_status_of(error), message=str(error))
    except (SystemExit, KeyboardInterrupt) as error:
        # Without an outcome it would pass for a signal, and be tried again.
        _log.error("training failed\n%s", traceback.format_exc())
        return WorkerOutcome(status="error", message=f"the process was told to exit: {type(error).__name__}: {error}")
    except Exception as error:  # noqa: BLE001 - the boundary of the process: every failure becomes an outcome
        _log.error("training failed\n%s", traceback.format_exc())
        message = f"{type(error).__name__}: {error}"
        return WorkerOutcome(status="peer_lost" if _is_loss_of_peer(error) else "error", message=message)


def _status_of(error: UserError) -> str:
    from include.training.memory import TrainingOutOfMemoryError  # noqa: PLC0415 - imports torch, as the session has

    return "out_of_memory" if isinstance(error, TrainingOutOfMemoryError) else "bad_input"


def _is_loss_of_peer(error: BaseException) -> bool:
    """Whether a collective failed because another worker went away."""
    from torch.distributed import DistError  # noqa: PLC0415 - as above

    # gloo has no exception class of its own.
    return isinstance(error, DistError) or (isinstance(error, RuntimeError) and "gloo" in str(error))


def main(order_file: Path) -> NoReturn:
    """Run one attempt and end the process."""
    die_with_parent()
    order = WorkerOrder.model_validate_json(order_file.read_text(encoding="utf-8"))
    local_rank = int(os.environ["LOCAL_RANK"])
    folder = folder_of(order.job_dir, local_rank)
    folder.mkdir(exist_ok=True)
    # torchrun starts a worker again when others come or go; what the last one left is history.
    (folder / OUTCOME).unlink(missing_ok=True)
    stop = StopFlag(order.job_dir, look_every_s=LOOK_EVERY_S, hears_asking=local_rank == 0)
    stop.listen()
    write_json(folder / STARTED, own_identity().to_json())
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stdout)
    outcome = run_attempt(order, stop=stop)
    write_json(folder / OUTCOME, outcome.model_dump(mode="json"))
    sys.stdout.flush()
    sys.stderr.flush()
    # Interpreter teardown of torch costs more than a second.
    os._exit(_exit_code(order, outcome))


def _exit_code(order: WorkerOrder, outcome: WorkerOutcome) -> int:
    """What torchrun is told: 0 ends this worker's part, 1 makes torchrun stop the others and, if elastic, start again.

    A mistake of a person leaves with 0 where there is one worker: it is told by the outcome, and torchrun would bury
    its one clear line under a traceback.
    """
    if outcome.status == "done":
        return 0
    if order.request.rendezvous is not None and order.node is None:
        # Told to leave for good is only who has the marker; the others go on without it.
        return 0 if outcome.status == "preempted" and (order.job_dir / NOTICE).exists() else 1
    if outcome.status in ("error", "peer_lost"):
        return 1
    return 1 if outcome.status != "preempted" and int(os.environ["WORLD_SIZE"]) > 1 else 0


if __name__ == "__main__":
    main(Path(sys.argv[1]))
