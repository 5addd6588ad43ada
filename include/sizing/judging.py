"""Every offer with its best layout and number of instances, and everything that speaks against it. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from include.config.workload import LimitsSection, Workload
from include.core.contracts.offer import Offer, PurchaseOption
from include.core.contracts.plan import RankedOffer
from include.sizing.assumptions import USABLE_MEMORY
from include.sizing.limits import Bar, Violation, bars, quota_bar, violations
from include.sizing.objective import missing, score
from include.sizing.prediction import Course, Forecaster, Option, Twin, twin_of
from include.sizing.purchase import PurchaseRule
from include.sizing.steps import StepEstimate, StepTimes

ANY = "any"
Run = tuple[int, StepEstimate, Course]
Rank = tuple[float, float, float, float, str, str, int]


class Question(NamedTuple):
    """What the planner is asked.

    Attributes:
        workload: The order.
        limits: Its limits, the deadline in hours from now.
        engine: Engine that may launch, ``any`` for every one.
        quota: vCPUs by class of instances.
        rule: Which purchase options may be taken.
    """

    workload: Workload
    limits: LimitsSection
    engine: str
    quota: Mapping[str, int]
    rule: PurchaseRule


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One offer.

    Attributes:
        offer: The offer.
        option: Its best number of instances, or the one nearest to the limits; None where no time can be told.
        options: All numbers of instances, and layouts of them, that keep the limits.
        blockers: Reasons that no limit can be relaxed for.
        barred: Limits on places and quotas that it does not keep.
        violated: Limits on time, cost and carbon that its option does not keep.
        elsewhere: Why its engine may not launch it, empty where it may.
        short: How many times its device memory the smallest layout needs, None where it has an option or memory is not
            what is missing.
    """

    offer: Offer
    option: Option | None
    options: tuple[Option, ...]
    blockers: tuple[str, ...]
    barred: tuple[Bar, ...]
    violated: tuple[Violation, ...]
    elsewhere: str
    short: float | None = None

    @property
    def fits(self) -> bool:
        """Whether it keeps everything, were its engine configured."""
        return not (self.blockers or self.barred or self.violated)

    @property
    def accepted(self) -> bool:
        """Whether it may be chosen."""
        return self.fits and not self.elsewhere

    @property
    def reason(self) -> str | None:
        """Everything that speaks against it, None where nothing does."""
        engine = (self.elsewhere,) if self.elsewhere else ()
        limits = (*(bar.text for bar in self.barred), *(violation.text for violation in self.violated))
        return "; ".join((*self.blockers, *engine, *limits)) or None


class Judge:
    """Judges offers for one question; hardware that many offers share is looked at once.

    Args:
        question: What is asked.
        times: Steps on any hardware.
        forecaster: Time, cost and carbon of a training.
    """

    def __init__(self, question: Question, times: StepTimes, forecaster: Forecaster) -> None:
        self._question, self._times, self._forecaster = question, times, forecaster
        self._compute = question.workload.compute
        self._steps: dict[tuple[object, ...], tuple[tuple[int, StepEstimate], ...]] = {}
        self._courses: dict[tuple[object, ...], tuple[Run, ...]] = {}

    def rank(self, option: Option) -> Rank:
        """Best first by the objective; ties by cost, time, carbon, then name. Unknown figures come last."""
        usd = math.inf if option.usd is None else option.usd
        gco2e = math.inf if option.gco2e is None else option.gco2e
        name, zone = option.offer.name, option.offer.zone or ""
        return score(option, self._compute), usd, option.time_s, gco2e, name, zone, option.instances

    def judge(self, offer: Offer) -> Judged:
        """The offer with its best number of instances."""
        question = self._question
        options = self._options(offer)
        barred = bars(offer, self._compute)
        within = [option for option in options if quota_bar(offer, option.instances, question.quota) is None]
        if options and not within:
            barred = (*barred, *filter(None, [quota_bar(offer, options[0].instances, question.quota)]))
        keeping = tuple(option for option in within if not violations(option, question.limits))
        best = self._best(keeping, within or options)
        blockers = []
        if offer.purchase not in question.rule.admissible:
            blockers.append(f"not admissible: {question.rule.sentence}")
        blockers += [self._no_option(offer)] if best is None else filter(None, [missing(best, self._compute)])
        return Judged(
            offer=offer,
            option=best,
            options=keeping,
            blockers=tuple(blockers),
            barred=barred,
            violated=() if best is None else violations(best, question.limits),
            elsewhere=self._elsewhere(offer.engine),
            short=self._short(offer) if best is None else None,
        )

    def _short(self, offer: Offer) -> float | None:
        device = offer.accelerator_memory_bytes
        if device is None or not offer.accelerators or self._times.device_of(offer) is None:
            return None
        ratio = self._times.least_bytes(offer) / (USABLE_MEMORY * device)
        return ratio if ratio > 1 else None

    def _elsewhere(self, engine: str) -> str:
        asked = self._question.engine
        if asked in (ANY, engine):
            return ""
        own = asked == self._compute.engine
        return f"engine {engine} is not configured" if own else f"engine {engine} is not asked for"

    def single(self, offer: Offer) -> Option | None:
        """One instance of an offer, or the fewest that the model fits into; None where no time can be told."""
        return min(self._options(offer), key=lambda option: (option.instances, option.time_s), default=None)

    def broken(self, option: Option) -> tuple[str, ...]:
        """Limits on time, cost and carbon that an option does not keep, for people."""
        return tuple(violation.text for violation in violations(option, self._question.limits))

    def ranked(self, judged: Judged) -> RankedOffer:
        """For the plan: with its prediction where there is one, and the reasons against it."""
        option = judged.option
        if option is None:
            return RankedOffer(offer=judged.offer, prediction=None, rejected=judged.reason)
        return self.ranked_option(option, judged.reason)

    def ranked_option(self, option: Option, rejected: str | None) -> RankedOffer:
        """The same for one number of instances."""
        return RankedOffer(
            offer=option.offer,
            prediction=self._forecaster.prediction(option, self._times.correction_of(option.offer)),
            rejected=rejected,
            layout=option.step.layout,
            instances=option.instances,
        )

    def _options(self, offer: Offer) -> list[Option]:
        return [
            self._forecaster.option(offer, instances, step, course)
            for instances, step, course in self._courses_of(offer)
        ]

    def _courses_of(self, offer: Offer) -> tuple[Run, ...]:
        """How the training goes on each number of instances; offers of the same hardware and rate share them."""
        steps = self._steps_of(offer)
        rate = self._forecaster.assumed.rate_of(offer)
        learned = self._times.correction_of(offer)
        ratio = learned.time_ratio if learned is not None and learned.time_ratio is not None else 1.0
        key = (id(steps), rate, offer.engine, ratio)
        if key not in self._courses:
            runs: list[Run] = []
            rivals: dict[int, list[Run]] = {}
            for instances, step in steps:
                course = self._forecaster.course(
                    step=step, ratio=ratio, engine=offer.engine, rate_per_h=instances * rate
                )
                runs.append((instances, step, course))
                rivals.setdefault(instances, []).append(runs[-1])
            self._courses[key] = tuple(run for run in runs if not any(_beats(rival, run) for rival in rivals[run[0]]))
        return self._courses[key]

    def _steps_of(self, offer: Offer) -> tuple[tuple[int, StepEstimate], ...]:
        counts = self._times.counts(offer)
        local = offer.engine == "local"
        key = (self._times.device_of(offer), offer.network_bytes_per_s, offer.vcpus, offer.ram_bytes, counts, local)
        if key not in self._steps:
            told = self._times.unknown(offer) is None
            self._steps[key] = (
                tuple((n, step) for n in counts for step in self._times.candidates(offer, n)) if told else ()
            )
        return self._steps[key]

    def _best(self, keeping: Sequence[Option], others: Sequence[Option]) -> Option | None:
        """The best one that keeps the limits, else the one that exceeds them least."""
        if keeping:
            return min(keeping, key=self.rank)
        limits = self._question.limits
        return min(
            others,
            key=lambda option: (max((v.excess for v in violations(option, limits)), default=0.0), *self.rank(option)),
            default=None,
        )

    def _no_option(self, offer: Offer) -> str:
        """Why an offer has no option at all: its memory, or figures that nobody has."""
        device, least = offer.accelerator_memory_bytes, self._times.least_bytes(offer)
        if device is not None and offer.accelerators and least > USABLE_MEMORY * device:
            return f"needs {_gb(least)} of device memory, has {_gb(device)}"
        # Shards may be as small as one likes, so nothing of the state is needed on an accelerated host.
        needed = self._times.table.host_bytes(workers=1, share=0.0 if offer.accelerators else 1.0, offload=False)
        if needed > USABLE_MEMORY * offer.ram_bytes:
            return f"needs {_gb(needed)} of host memory, has {_gb(offer.ram_bytes)}"
        return self._times.unknown(offer) or (
            f"no layout fits into {_gb(device or 0)} of device memory and {_gb(offer.ram_bytes)} of host memory"
        )


def _beats(one: Run, other: Run) -> bool:
    """Whether one of two layouts on as many instances is faster, at no more interruptions and no more energy."""
    (_, step, course), (_, slower, later) = one, other
    return (
        course.time_s < later.time_s
        and course.interruptions <= later.interruptions
        and course.active_s * step.busy <= later.active_s * slower.busy
    )


def on_demand_prices(offers: Iterable[Offer]) -> dict[Twin, float]:
    """Cheapest on-demand price per hour of each kind of hardware at each place."""
    found: dict[Twin, float] = {}
    for offer in offers:
        if offer.purchase is PurchaseOption.ON_DEMAND and offer.price is not None:
            key, price = twin_of(offer), float(Decimal(offer.price.usd_per_h))
            found[key] = min(price, found.get(key, math.inf))
    return found


def _gb(size: float) -> str:
    return f"{size / 1e9:.2f} GB"
