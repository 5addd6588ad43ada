"""How often capacity is taken away: stated estimates with their sources, and what own attempts have shown. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from include.core.contracts.offer import PurchaseOption

# Pooled over the availability traces of Wu et al. (NSDI'24) on AWS, single V100 or K80 instances: 1,509 times that
# capacity went away in 5,413 hours in which it was there (9 traces, 2022-10 and 2023-02). The traces ask whether an
# instance could be started, which goes away more often than a running one is interrupted.
_SPOT_SMALL_PER_H = 0.28
# The same for types of eight accelerators: 1,049 times in 1,091 hours (4 traces, 2022-10).
_SPOT_EIGHT_PER_H = 0.96
_TRACES = "availability traces of V100 and K80 spot instances, Wu et al., NSDI'24"
_WHOLE_NODE = 8
# 419 unexpected interruptions in 54 days on 16,384 H100: Dubey et al., "The Llama 3 Herd of Models", 2024, 3.3.4.
_FAILURES_PER_ACCELERATOR_H = 419 / (54 * 24 * 16_384)
# How many interruptions of its own the prior counts for: with as many seen, a learned rate weighs the same.
_PRIOR_INTERRUPTIONS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class InterruptionRate:
    """Expected interruptions per hour.

    Attributes:
        per_h: The rate.
        source: Where it comes from.
    """

    per_h: float
    source: str


def stated_rate(purchase: PurchaseOption, accelerators: int) -> InterruptionRate | None:
    """Estimate for an instance with accelerators; None where nobody published one."""
    if not accelerators:
        return None
    if purchase is PurchaseOption.SPOT:
        rate = _SPOT_EIGHT_PER_H if accelerators >= _WHOLE_NODE else _SPOT_SMALL_PER_H
        return InterruptionRate(per_h=rate, source=f"estimated, upper bound: {_TRACES}; other types may differ")
    return InterruptionRate(
        per_h=accelerators * _FAILURES_PER_ACCELERATOR_H,
        source="estimated: failures per hour of 16,384 H100, Dubey et al. 2024; other hardware may differ",
    )


def learned_rate(prior: InterruptionRate, *, interruptions: int, hours: float) -> InterruptionRate:
    """Rate after own attempts: the mean of a gamma posterior whose prior is worth one interruption at the stated rate.

    With a prior of rate r, worth k interruptions in k / r hours, n more in h hours give (k + n) / (k / r + h).

    Args:
        prior: The stated rate.
        interruptions: Attempts on such offers that ended because the capacity went away.
        hours: Hours that attempts ran on such offers.

    Raises:
        ValueError: A count or a duration is negative.
    """
    if interruptions < 0 or hours < 0:
        raise ValueError(f"must not be negative: {interruptions=} {hours=}")
    if hours == 0:
        return prior
    per_h = (_PRIOR_INTERRUPTIONS + interruptions) / (_PRIOR_INTERRUPTIONS / prior.per_h + hours)
    times = f"{interruptions} interruption{'' if interruptions == 1 else 's'}"
    own = f"learned: {times} in {hours:.3g} own hours"
    return InterruptionRate(per_h=per_h, source=f"{own}, with as prior {prior.per_h:.2g}/h ({prior.source})")
