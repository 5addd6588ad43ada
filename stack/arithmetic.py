"""The figures of the summary that are computed, not read. Pure; unknown stays None."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from include.config.recipes import BASELINE
from include.core.contracts.scorecard import Scorecard, Verdict
from include.core.exit_codes import ExitCode
from stack.last_run import TrainingAttempt

# An attempt that ended with one of these failed by itself: no interruption.
_OWN_FAULT = (ExitCode.ERROR, ExitCode.BAD_INPUT)


def interruptions(attempts: Sequence[TrainingAttempt]) -> int | None:
    """How many attempts were cut short by their capacity and continued by a later one; None without an attempt."""
    if not attempts:
        return None
    return sum(attempt.exit_code not in _OWN_FAULT for attempt in attempts[:-1])


def steps_lost(attempts: Sequence[TrainingAttempt]) -> int | None:
    """Optimizer steps that were executed and then executed again by the next attempt.

    The sum over all attempts but the last of max(0, last executed step - step that the next attempt resumed at). None
    when there was no attempt, or when one of these figures is missing.
    """
    if not attempts:
        return None
    lost = 0
    for attempt, following in pairwise(attempts):
        if attempt.last_executed_step is None or following.resumed_step is None:
            return None
        lost += max(0, attempt.last_executed_step - following.resumed_step)
    return lost


def card(verdict: Verdict | None, recipe: str | None) -> Scorecard | None:
    """Scorecard of one recipe."""
    cards = verdict.scorecards if verdict else ()
    return next((found for found in cards if found.recipe == recipe), None)


def size_ratio(verdict: Verdict | None) -> float | None:
    """Size of the fp32 ONNX baseline over the size of the chosen candidate."""
    baseline, chosen = card(verdict, BASELINE), card(verdict, verdict.chosen if verdict else None)
    if baseline is None or chosen is None or not chosen.size_bytes:
        return None
    return baseline.size_bytes / chosen.size_bytes


def accuracy_drop(verdict: Verdict | None) -> float | None:
    """Test accuracy of the fp32 ONNX baseline minus that of the chosen candidate; negative when it gained."""
    baseline, chosen = card(verdict, BASELINE), card(verdict, verdict.chosen if verdict else None)
    return None if baseline is None or chosen is None else baseline.accuracy - chosen.accuracy
