"""What register, loadtest and deploy have in common: the artefact that the verdict chose."""

from __future__ import annotations

from include.config.job_messages import JobRequest
from include.core.contracts.dataset import DatasetRef
from include.core.contracts.scorecard import Scorecard
from include.core.errors import UserError


def chosen_scorecard(request: JobRequest) -> Scorecard:
    """Scorecard of the chosen candidate.

    Raises:
        UserError: The request has no verdict, or the verdict chose what it did not score.
    """
    if request.verdict is None:
        raise UserError(f"{request.kind} request is incomplete", where=request.base, found="no verdict")
    for scorecard in request.verdict.scorecards:
        if scorecard.recipe == request.verdict.chosen:
            return scorecard
    raise UserError(
        "the verdict chose a recipe that it did not score",
        where=request.base,
        found=request.verdict.chosen,
        allowed=", ".join(scorecard.recipe for scorecard in request.verdict.scorecards),
    )


def required_dataset(request: JobRequest) -> DatasetRef:
    """Dataset of the request.

    Raises:
        UserError: The request has none.
    """
    if request.dataset is None:
        raise UserError(f"{request.kind} request is incomplete", where=request.base, found="no dataset")
    return request.dataset
