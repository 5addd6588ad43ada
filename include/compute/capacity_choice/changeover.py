"""What it costs to begin anew on a candidate: time without progress, and bytes out of the store's region. Pure."""

from __future__ import annotations

from decimal import Decimal

from include.compute.capacity_choice.question import Question, RecoveryTerms, is_spot
from include.core.contracts.lease import LaunchCandidate

# Reading a checkpoint, stated as in the planner; between regions about a tenth of that.
RESTORE_BYTES_PER_S = 5e8
RESTORE_ABROAD_BYTES_PER_S = 5e7
# EC2 on-demand pricing page, "Data Transfer OUT From Amazon EC2 To", other AWS regions: USD per GB from us-east-1.
EGRESS_USD_PER_GB = Decimal("0.02")
# Losses per hour that spot capacity is reckoned with: availability traces of Wu et al. (NSDI'24), pooled.
LOSSES_PER_H = 0.28
_HOUR_S = 3600.0
_GB = 10**9


def restore_s(terms: RecoveryTerms, candidate: LaunchCandidate | None) -> float:
    """Seconds that reading the checkpoint takes; 0 where its size is unknown."""
    abroad = candidate is not None and _abroad(terms, candidate)
    return (terms.checkpoint_bytes or 0) / (RESTORE_ABROAD_BYTES_PER_S if abroad else RESTORE_BYTES_PER_S)


def changeover_s(terms: RecoveryTerms, candidate: LaunchCandidate | None = None) -> float:
    """Seconds without progress after a loss without notice: start, restore, and the work since the checkpoint."""
    return terms.start_s + restore_s(terms, candidate) + terms.interval_s


def egress_usd(terms: RecoveryTerms, candidate: LaunchCandidate) -> Decimal:
    """US dollars for reading the checkpoint from another region, once."""
    if not _abroad(terms, candidate):
        return Decimal(0)
    return EGRESS_USD_PER_GB * (terms.checkpoint_bytes or 0) * terms.instances / _GB


def usd_per_h(candidate: LaunchCandidate, *, instances: int) -> Decimal | None:
    """Price of an hour of all instances, None where it is unknown; spot without a price counts as its list price."""
    price = candidate.usd_per_h or candidate.list_usd_per_h
    return None if price is None else Decimal(price) * instances


def usd_to_the_end(question: Question, candidate: LaunchCandidate) -> Decimal | None:
    """Expected cost of what is left on one candidate, None where its price is unknown.

    Work left, one start, the starts that losses of spot capacity are expected to cost, and bytes out of the region.
    """
    terms = question.terms
    hourly = usd_per_h(candidate, instances=terms.instances)
    if hourly is None:
        return None
    work_h = question.work_left_s / _HOUR_S
    start_h = (terms.start_s + restore_s(terms, candidate)) / _HOUR_S
    losses = work_h * LOSSES_PER_H if is_spot(candidate) else 0.0
    hours = Decimal(repr(work_h + start_h * (1 + losses)))
    return hourly * hours + egress_usd(terms, candidate) * Decimal(repr(1 + losses))


def _abroad(terms: RecoveryTerms, candidate: LaunchCandidate) -> bool:
    return bool(terms.home_region) and candidate.region != terms.home_region
