"""``train``: fit the model, from the newest committed checkpoint of the run on."""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn

from include.config.job_messages import TrainResult
from include.core.errors import PlimsollError, PreemptedError, UserError
from include.jobs.context import JobContext
from include.training.launcher import launch_training
from include.training.outcome import WorkerOrder


def run(context: JobContext) -> TrainResult:
    """Train under torchrun.

    Args:
        context: The request needs ``dataset``; ``layout`` and ``checkpoint_every_steps`` come from the plan.

    Raises:
        PreemptedError: A notice ended the attempt at a committed checkpoint.
        UserError: A person must change something: input, layout, diverging training, memory.
        PlimsollError: The worker failed.
    """
    order = WorkerOrder(request=context.request, settings=context.settings, job_dir=context.job_dir)
    outcome = launch_training(order, store=context.store)
    if outcome is None:
        _die_by_signal()
    if outcome.status == "preempted":
        raise PreemptedError(step=outcome.step, checkpoint=outcome.checkpoint_uri)
    if outcome.status == "bad_input":
        raise UserError(outcome.message)
    if outcome.result is None:
        raise PlimsollError(outcome.message)
    return outcome.result


def _die_by_signal() -> NoReturn:
    # A worker that a signal ended is a preemption without notice: a new attempt, not an error. The agent knows that
    # case only as a job process that a signal ended, and torchrun stands in between, so the job process ends likewise.
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("SIGKILL does not return")
