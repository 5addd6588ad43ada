"""A run's prediction beside what it really took: the event that the next prediction learns from. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from include.core.contracts.measured import Measured
from include.core.contracts.offer import Offer
from include.core.contracts.plan import Plan
from include.core.json_codec import to_json

Outcome = Literal["done", "out of memory", "timed out", "stopped", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Actual:
    """What the training of a run took. Unknown is None.

    Attributes:
        outcome: ``done``; ``out of memory``; ``timed out`` at its deadline; ``stopped`` from outside before that;
            ``failed``.
        time_s: Paid seconds of its leases.
        lost_s: Seconds of them that interruptions took.
        usd: Their cost.
        kwh: Their energy.
        gco2e: Their carbon.
        energy_method: How the energy came about.
        cost_method: How the cost came about.
        measured: Step and peak of the attempt that came farthest, None where it left no telemetry.
        ran_out: Memory of the device that a layout did not fit into, None where all fitted or nobody knows it.
        out_of_memory: Whether a layout did not fit.
    """

    outcome: Outcome
    time_s: float | None = None
    lost_s: float | None = None
    usd: float | None = None
    kwh: float | None = None
    gco2e: float | None = None
    energy_method: str = "unknown"
    cost_method: str = "unknown"
    measured: Measured | None = None
    ran_out: int | None = None
    out_of_memory: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One figure, predicted and measured.

    Attributes:
        what: ``memory``, ``step``, ``time``, ``cost``, ``energy`` or ``carbon``.
        unit: Of both figures.
        predicted: What the plan expected, None where it did not know.
        measured: What it was, None where it was not measured.
        ratio: Measured over predicted, None where one of them is missing.
        method: How the second figure came about.
    """

    what: str
    unit: str
    predicted: float | None
    measured: float | None
    ratio: float | None
    method: str


def device_of(offer: Offer) -> str:
    """Name under which corrections of an offer are learned: its accelerator, or the type of a CPU offer."""
    return offer.accelerator or offer.instance_type


def layout_changed(plan: Plan, measured: Measured | None) -> bool:
    """Whether another layout ran than the planned one."""
    ran = None if measured is None else measured.layout
    return ran is not None and ran != plan.layout


def compare(plan: Plan, actual: Actual) -> tuple[Compared, ...]:
    """Memory, step, time, cost, energy and carbon; unknown stays None."""
    predicted, measured = plan.prediction, actual.measured
    same = not layout_changed(plan, measured)
    peak = measured.peak_device_bytes if measured and same else None
    step = measured.step_s if measured and same else None
    rows = (
        ("memory", "bytes", predicted.traced_peak_bytes, peak, _memory_method(measured, same=same)),
        ("step", "s", predicted.step_s, step, _step_method(measured, same=same)),
        ("time", "s", predicted.time_s, actual.time_s, "paid seconds of the training's leases"),
        ("cost", "USD", predicted.usd, actual.usd, actual.cost_method),
        ("energy", "kWh", predicted.kwh, actual.kwh, actual.energy_method),
        ("carbon", "gCO2e", predicted.gco2e, actual.gco2e, actual.energy_method),
    )
    return tuple(
        Compared(what=what, unit=unit, predicted=before, measured=after, ratio=_ratio(before, after), method=method)
        for what, unit, before, after, method in rows
    )


def _ratio(predicted: float | None, measured: float | None) -> float | None:
    return None if not predicted or measured is None else measured / predicted


def _memory_method(measured: Measured | None, *, same: bool) -> str:
    if not same:
        return "another layout ran than the planned one"
    if measured is None or measured.peak_device_bytes is None:
        return "not measured: no device with memory of its own"
    return f"peak of the training's tensors on {measured.device}, against the traced peak without margin"


def _step_method(measured: Measured | None, *, same: bool) -> str:
    if not same:
        return "another layout ran than the planned one"
    if measured is None or measured.step_s is None:
        return "not measured: no telemetry"
    return f"median of {measured.steps} steps on {measured.device}"


def prediction_event(plan: Plan, actual: Actual, *, family: str) -> dict[str, Any]:
    """Body of the ledger's ``prediction`` event; `include.ledger.corrections` reads it.

    Args:
        plan: The run's plan.
        actual: What its training took.
        family: The model's factory.
    """
    measured, predicted = actual.measured, plan.prediction
    return {
        "family": family,
        "device": device_of(plan.offer),
        "precision": plan.layout.precision,
        "outcome": actual.outcome,
        "out_of_memory": actual.out_of_memory,
        "layout_changed": layout_changed(plan, measured),
        "offer": plan.offer.name,
        "step": {
            "predicted_s": predicted.step_s,
            "measured_s": measured.step_s if measured else None,
            "steps": measured.steps if measured else 0,
        },
        "memory": {
            "predicted_bytes": predicted.traced_peak_bytes,
            "measured_bytes": measured.peak_device_bytes if measured else None,
            "device_bytes": actual.ran_out,
        },
        "predicted": to_json(predicted),
        "compared": to_json(compare(plan, actual)),
    }
