"""``train``: fit the model, from the newest committed checkpoint of the run on."""

from __future__ import annotations

import logging
import os
import signal
import sys
from dataclasses import replace
from typing import NoReturn

from include.config.job_messages import JobRequest, TrainResult
from include.core.contracts.measured import OUT_OF_MEMORY, OutOfMemory
from include.core.errors import PlimsollError, PreemptedError, UserError
from include.core.json_codec import to_json
from include.jobs.context import JobContext
from include.jobs.other_nodes import raise_outcome_elsewhere
from include.training.launcher import launch_training
from include.training.outcome import WorkerOrder, WorkerOutcome

_log = logging.getLogger("plimsoll.train")


def run(context: JobContext) -> TrainResult:
    """Train under torchrun.

    Args:
        context: The request needs ``dataset``; ``layout`` and ``checkpoint_every_steps`` come from the plan.

    Raises:
        PreemptedError: A notice ended the attempt at a committed checkpoint.
        UserError: A person must change something: input, layout, diverging training, memory.
        PlimsollError: The worker failed.
    """
    outcome = _launch(context, context.request)
    if outcome is not None and outcome.status == "out_of_memory":
        outcome = _try_fallback(context, outcome)
    if outcome is None and context.node is not None:
        raise_outcome_elsewhere(context.store, base=context.request.base, node=context.node)
    if outcome is None:
        _die_by_signal()
    if outcome.status == "preempted":
        raise PreemptedError(step=outcome.step, checkpoint=outcome.checkpoint_uri)
    if outcome.status in ("bad_input", "out_of_memory"):
        raise UserError(outcome.message)
    if outcome.result is None:
        raise PlimsollError(outcome.message)
    return outcome.result


def _launch(context: JobContext, request: JobRequest) -> WorkerOutcome | None:
    order = WorkerOrder(request=request, settings=context.settings, job_dir=context.job_dir, node=context.node)
    outcome = launch_training(order, store=context.store)
    if outcome is None or outcome.measured is None:
        return outcome
    measured = replace(outcome.measured, layout=request.layout)
    result = None if outcome.result is None else outcome.result.model_copy(update={"measured": measured})
    return outcome.model_copy(update={"measured": measured, "result": result})


def _try_fallback(context: JobContext, outcome: WorkerOutcome) -> WorkerOutcome | None:
    """Train once more on the next layout of the plan, from the last commit."""
    request = context.request
    # The first layout is the planned one: its failure is what the next prediction learns from.
    lesson = OutOfMemory(layout=request.layout, measured=outcome.measured, message=outcome.message)
    context.store.put_json(f"{request.base}/{OUT_OF_MEMORY}", to_json(lesson))
    predicted = request.predicted_peak_bytes
    expected = "no prediction" if predicted is None else f"{predicted / 1e9:.2f} GB were predicted"
    message = f"{outcome.message} | {expected}"
    if context.node is not None:
        return outcome.model_copy(update={"message": f"{message} | several nodes try no other layout by themselves"})
    if not request.fallback_layouts:
        return outcome.model_copy(update={"message": f"{message} | the plan has no other layout to try"})
    layout = request.fallback_layouts[0]
    _log.warning("%s; trying once more with %s", message, layout)
    again = _launch(context, request.model_copy(update={"layout": layout}))
    if again is not None and again.status == "out_of_memory":
        return again.model_copy(
            update={"message": f"{again.message} | {expected}, and so it was with {request.layout}"}
        )
    return again


def _die_by_signal() -> NoReturn:
    # A worker that a signal ended is a preemption without notice: a new attempt, not an error. The agent knows that
    # case only as a job process that a signal ended, and torchrun stands in between, so the job process ends likewise.
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("SIGKILL does not return")
