"""What to rent for the next run of a workload, from the verdict over the last one and the plan's alternatives. Pure.

A saving is the difference of two predictions of one plan, laid over what the run really cost: both predictions rest on
the same assumptions, so most of what is wrong with them cancels out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from include.core.contracts.correction import Correction
from include.core.contracts.diagnosis import Diagnosis, Slowness
from include.core.contracts.offer import Offer, PurchaseOption
from include.core.contracts.plan import Plan, Prediction, RankedOffer
from include.sizing.comparison import Actual, device_of

Action = Literal["larger GPU", "more CPU", "fix loading", "smaller GPU", "MIG slice", "keep"]

# Runs and spread (largest over smallest ratio of time) from which a recommendation rests on more than a guess.
SOME_RUNS, MANY_RUNS = 3, 10
SMALL_SPREAD, LARGE_SPREAD = 1.1, 1.5
# `include.training.diagnosis_waits`: above this all cores of a host are taken.
_CPU_FULL = 0.85

_LOADING = (Slowness.DATA_BOUND, Slowness.SCALLOPED, Slowness.COPY_BOUND)
_TOO_LARGE = (Slowness.OVERSIZED, Slowness.LAUNCH_BOUND)


@dataclass(frozen=True, slots=True, kw_only=True)
class Confidence:
    """How much stands behind a recommendation.

    Attributes:
        level: ``low``, ``medium`` or ``high``.
        runs: Runs of this family, device and precision in the ledger.
        spread: Largest over smallest of their measured over predicted step times, None for fewer than two.
        rule: What the level means.
    """

    level: Literal["low", "medium", "high"]
    runs: int
    spread: float | None
    rule: str = (
        f"high from {MANY_RUNS} runs with a spread up to {SMALL_SPREAD:g}, medium from {SOME_RUNS} up to "
        f"{LARGE_SPREAD:g}, else low"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """What to change for the next run. Unknown is None.

    Attributes:
        action: What to do, in two words.
        reason: Why, with the numbers of the diagnosis.
        fix: What to try in code or settings; empty for nothing.
        instance_type: Type to rent.
        instances: How many of it.
        purchase: How to pay for it.
        micro_batch: Samples per forward pass and worker; the batch of a step stays, so the training learns the same.
        workers: Training workers.
        saving_usd: What the next run costs less, negative where it costs more.
        saving_share: Its share of the cost of this run.
        price_now: Price of the last run with its date and source.
        price_then: Price of the recommended offer with its date and source.
        method: How the saving came about.
        confidence: How much stands behind it.
    """

    action: Action
    reason: str
    fix: str
    instance_type: str
    instances: int
    purchase: str
    micro_batch: int
    workers: int
    saving_usd: float | None
    saving_share: float | None
    price_now: str | None
    price_then: str | None
    method: str
    confidence: Confidence


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    """What was decided, before the money."""

    action: Action
    reason: str
    fix: str = ""
    offer: RankedOffer | None = None  # None: the same one again
    micro_batch: int | None = None  # None: the same one again
    saving_share: float | None = None
    method: str = ""


def recommend(
    *,
    plan: Plan,
    family: str,
    diagnosis: Diagnosis | None,
    actual: Actual,
    corrections: Sequence[Correction] = (),
) -> Recommendation:
    """Recommend offer, batch, workers and purchase for the next run.

    Args:
        plan: The last run's plan with its alternatives.
        family: The model's factory.
        diagnosis: Verdict over its training, None without telemetry.
        actual: What the training took.
        corrections: What the ledger has learned, this run included.
    """
    choice = _choose(plan, diagnosis, actual)
    offer = choice.offer.offer if choice.offer else plan.offer
    layout = (choice.offer.layout if choice.offer else None) or plan.layout
    share, method = choice.saving_share, choice.method
    if choice.offer is not None:
        share, method = _saving(plan, choice.offer)
    return Recommendation(
        action=choice.action,
        reason=choice.reason,
        fix=choice.fix,
        instance_type=offer.instance_type,
        instances=choice.offer.instances if choice.offer else plan.instances,
        purchase=offer.purchase.value,
        micro_batch=choice.micro_batch or layout.micro_batch,
        workers=layout.workers,
        saving_usd=None if share is None or actual.usd is None else share * actual.usd,
        saving_share=share,
        price_now=_price(plan.offer),
        price_then=_price(offer),
        method=method or "the same offer again: nothing is saved by renting",
        confidence=_confidence(plan, family, corrections),
    )


def _choose(plan: Plan, diagnosis: Diagnosis | None, actual: Actual) -> _Choice:
    if actual.out_of_memory:
        return _more_memory(plan, "a layout of this run did not fit into its device", "")
    if actual.outcome == "timed out":
        return _faster(plan, actual)
    if diagnosis is None:
        return _purchase(plan, actual) or _Choice(action="keep", reason="no telemetry, so nothing speaks for a change")
    by_verdict = _by_verdict(plan, diagnosis)
    keep = _Choice(action="keep", reason=diagnosis.reason, fix=diagnosis.fix)
    return by_verdict or _purchase(plan, actual) or keep


def _by_verdict(plan: Plan, diagnosis: Diagnosis) -> _Choice | None:
    """What the verdict asks for; None where it asks for nothing that could be rented."""
    verdict = diagnosis.verdict
    if verdict is Slowness.NEAR_OUT_OF_MEMORY:
        return _more_memory(plan, diagnosis.reason, diagnosis.fix)
    if verdict in _LOADING:
        return _loading(plan, diagnosis)
    if verdict in _TOO_LARGE:
        return _smaller(plan, diagnosis)
    if verdict is Slowness.BATCH_TOO_LARGE:
        half = max(1, plan.layout.micro_batch // 2)
        return _Choice(action="keep", reason=diagnosis.reason, fix=diagnosis.fix, micro_batch=half)
    return None


def _more_memory(plan: Plan, reason: str, fix: str) -> _Choice:
    now = plan.offer
    device = now.accelerator_memory_bytes
    if device is None:
        found = _cheapest(plan, lambda offer, _: offer.ram_bytes > now.ram_bytes)
    else:
        found = _cheapest(plan, lambda offer, _: (offer.accelerator_memory_bytes or 0) > device)
    fallback = plan.fallback_layouts[0].micro_batch if plan.fallback_layouts else None
    if found is None:
        missing = "no offer of the plan has more memory and keeps the limits"
        return _Choice(action="keep", reason=f"{reason}; {missing}", fix=fix, micro_batch=fallback)
    if device is None:
        return _Choice(action="more CPU", reason=f"{reason}; a host with more memory", fix=fix, offer=found)
    return _Choice(action="larger GPU", reason=reason, fix=fix, offer=found)


def _faster(plan: Plan, actual: Actual) -> _Choice:
    """The cheapest offer that would have come to its end in time, if it errs as the last prediction did."""
    predicted, step = plan.prediction, actual.measured.step_s if actual.measured else None
    # At least as much longer as it took until it was ended; by its steps it may be known better.
    error = max(
        (actual.time_s or 0.0) / predicted.time_s if predicted.time_s else 1.0,
        step / predicted.step_s if step and predicted.step_s else 1.0,
    )
    reason = f"it was not done at its deadline; by what was measured it takes at least {error:.3g} times the prediction"
    found = _cheapest(plan, lambda _, expected: (expected.time_s or math.inf) * error < (actual.time_s or 0.0))
    if found is None:
        return _Choice(action="keep", reason=f"{reason}; no offer of the plan is fast enough: a later deadline")
    return _Choice(action="larger GPU" if found.offer.accelerators else "more CPU", reason=reason, offer=found)


def _loading(plan: Plan, diagnosis: Diagnosis) -> _Choice:
    finding = next((found for found in diagnosis.findings if found.kind is diagnosis.verdict), None)
    cpu = finding.evidence.get("host_cpu") if finding else None
    now = plan.offer
    if diagnosis.verdict is Slowness.DATA_BOUND and cpu is not None and cpu >= _CPU_FULL:
        found = _cheapest(
            plan,
            lambda offer, _: (
                offer.vcpus > now.vcpus
                and (offer.accelerator, offer.accelerators) == (now.accelerator, now.accelerators)
            ),
        )
        if found is not None:
            return _Choice(action="more CPU", reason=diagnosis.reason, fix=diagnosis.fix, offer=found)
    lost = finding.lost_share if finding else None
    return _Choice(
        action="fix loading",
        reason=diagnosis.reason,
        fix=diagnosis.fix,
        saving_share=lost,
        method="" if lost is None else "at most: the share of the time lost to it, times what the training cost",
    )


def _smaller(plan: Plan, diagnosis: Diagnosis) -> _Choice | None:
    now = plan.offer
    if not now.accelerators or now.mig_profile is not None:
        return None
    held = now.accelerators * (now.accelerator_memory_bytes or 0)
    found = _cheapest(
        plan,
        lambda offer, _: (
            offer.mig_profile is not None
            or 0 < offer.accelerators * (offer.accelerator_memory_bytes or 0) < held
            or (offer.accelerator == now.accelerator and 0 < offer.accelerators < now.accelerators)
        ),
        below=plan.prediction.usd,
    )
    if found is None:
        if not now.mig_profiles:
            return None
        profiles = ", ".join(now.mig_profiles)
        return _Choice(
            action="MIG slice",
            reason=f"{diagnosis.reason}; {now.accelerator} can be cut into {profiles}, for which there is no offer",
            fix=diagnosis.fix,
            method="unknown: a slice has no price of its own in the catalog",
        )
    action: Action = "MIG slice" if found.offer.mig_profile is not None else "smaller GPU"
    return _Choice(action=action, reason=diagnosis.reason, fix=diagnosis.fix, offer=found)


def _purchase(plan: Plan, actual: Actual) -> _Choice | None:
    """On-demand, where interruptions of a spot offer took more of the time than its price saves."""
    now = plan.offer
    if now.purchase is not PurchaseOption.SPOT or now.price is None or not actual.time_s or actual.lost_s is None:
        return None
    same = [
        ranked
        for ranked in plan.alternatives
        if ranked.offer.purchase is PurchaseOption.ON_DEMAND
        and (ranked.offer.instance_type, ranked.offer.region) == (now.instance_type, now.region)
        and ranked.offer.price is not None
    ]
    if not same or same[0].offer.price is None:
        return None
    spot, steady = float(now.price.usd_per_h), float(same[0].offer.price.usd_per_h)
    lost, discount = actual.lost_s / actual.time_s, 1 - spot / steady
    if lost <= discount:
        return None
    return _Choice(
        action="keep",
        reason=f"interruptions took {lost:.0%} of the paid time, more than the {discount:.0%} that spot saves",
        offer=same[0],
    )


def _cheapest(
    plan: Plan, fits: Callable[[Offer, Prediction], bool], *, below: float | None = None
) -> RankedOffer | None:
    """The alternative with the lowest predicted cost that may be taken; None for none."""
    found = [
        (ranked.prediction.usd, ranked)
        for ranked in plan.alternatives
        if ranked.rejected is None
        and ranked.prediction is not None
        and ranked.prediction.usd is not None
        and (below is None or ranked.prediction.usd < below)
        and fits(ranked.offer, ranked.prediction)
    ]
    return min(found, key=lambda pair: pair[0], default=(0.0, None))[1]


def _saving(plan: Plan, then: RankedOffer) -> tuple[float | None, str]:
    now, later = plan.prediction.usd, then.prediction.usd if then.prediction else None
    if not now or later is None:
        return None, "unknown: one of the two offers has no predicted cost"
    return 1 - later / now, (
        f"predicted {later:.3g} USD on {then.offer.name} against {now:.3g} USD on {plan.offer.name}, both by the last "
        "plan, as a share of what the training cost"
    )


def _price(offer: Offer) -> str | None:
    price = offer.price
    return None if price is None else f"{price.usd_per_h} USD/h as of {price.as_of}, {price.method}, {price.source}"


def _confidence(plan: Plan, family: str, corrections: Sequence[Correction]) -> Confidence:
    key = (family, device_of(plan.offer), plan.layout.precision)
    known = next((c for c in corrections if (c.family, c.device, c.precision) == key), None)
    runs, spread = (0, None) if known is None else (known.runs, known.time_spread)
    if runs >= MANY_RUNS and spread is not None and spread <= SMALL_SPREAD:
        return Confidence(level="high", runs=runs, spread=spread)
    if runs >= SOME_RUNS and spread is not None and spread <= LARGE_SPREAD:
        return Confidence(level="medium", runs=runs, spread=spread)
    return Confidence(level="low", runs=runs, spread=spread)
