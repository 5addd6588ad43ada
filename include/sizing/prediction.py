"""What the training would take on one offer. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from include.carbon.energy import estimate_energy
from include.config.workload import Workload
from include.core.contracts.demand import Demand
from include.core.contracts.offer import Offer, PurchaseOption
from include.core.contracts.plan import Layout, Prediction
from include.sizing.assumptions import (
    FORWARD_SHARE,
    GPU_CONTEXT_BYTES,
    HOUR_S,
    MEMORY_MARGIN,
    MEMORY_MARGIN_RECOMPUTED,
    REACHED_BANDWIDTH,
    REACHED_FLOP,
    Assumptions,
)
from include.sizing.checkpoints import checkpoint_interval
from include.sizing.roofline import step_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """A prediction with what it rests on.

    Attributes:
        prediction: Time, cost, energy, carbon, memory.
        checkpoint_every_steps: Checkpoint interval on this offer; once per epoch where the step time is unknown.
    """

    prediction: Prediction
    checkpoint_every_steps: int


def peak_device_bytes(demand: Demand, offer: Offer, layout: Layout) -> int:
    """Device memory to reserve: the traced peak with its margin, on an accelerator also the driver's context."""
    margin = MEMORY_MARGIN_RECOMPUTED if layout.activation_checkpointing != "off" else MEMORY_MARGIN
    return round(margin * demand.memory.total_bytes) + (GPU_CONTEXT_BYTES if offer.accelerators else 0)


def forecast(*, demand: Demand, offer: Offer, workload: Workload, layout: Layout, assumptions: Assumptions) -> Forecast:
    """Predict one training on one offer.

    Only the training is predicted; data preparation, compression and evaluation run on this machine and are not in it.
    """
    training = workload.training
    # A training of so many steps names no epoch: the interval is then bounded by its length alone.
    epoch_steps = demand.steps if training.steps else max(1, demand.steps // training.epochs)
    step = step_s(demand, offer, batch=training.batch_size, precision=layout.precision)
    every, time_s = training.checkpoint_every_steps or epoch_steps, None
    if step is not None:
        every = training.checkpoint_every_steps or checkpoint_interval(
            step_s=step,
            save_s=assumptions.save_s,
            interruptions_per_h=assumptions.interruptions_per_h[offer.purchase],
            steps_per_epoch=epoch_steps,
        )
        time_s = _time_s(step=step, every=every, demand=demand, offer=offer, workload=workload, assumed=assumptions)
    kwh, gco2e = _energy(time_s, demand=demand, offer=offer, assumed=assumptions)
    return Forecast(
        prediction=Prediction(
            time_s=time_s,
            usd=_usd(time_s, offer),
            kwh=kwh,
            gco2e=gco2e,
            peak_device_bytes=peak_device_bytes(demand, offer, layout),
            method=_method(offer, time_s, assumptions),
        ),
        checkpoint_every_steps=every,
    )


def _time_s(
    *, step: float, every: int, demand: Demand, offer: Offer, workload: Workload, assumed: Assumptions
) -> float:
    """Start, steps, validation after each epoch, saves, and the expected loss to interruptions."""
    split = workload.data.split
    validation_rows_per_row = split.validation / (1 - split.validation - split.test)
    busy = demand.steps * step * (1 + FORWARD_SHARE * validation_rows_per_row)
    saving = demand.steps / every * assumed.save_s
    start = assumed.start_s[offer.engine]
    lost_per_interruption = start + every / 2 * step
    interruptions = (busy + saving) / HOUR_S * assumed.interruptions_per_h[offer.purchase]
    return start + busy + saving + interruptions * lost_per_interruption


def _usd(time_s: float | None, offer: Offer) -> float | None:
    return None if time_s is None or offer.price is None else float(Decimal(offer.price.usd_per_h)) * time_s / HOUR_S


def _energy(
    time_s: float | None, *, demand: Demand, offer: Offer, assumed: Assumptions
) -> tuple[float | None, float | None]:
    """Energy and carbon as the agent will account for them: a shared machine by CPU seconds, a rented one in whole."""
    if time_s is None:
        return None, None
    energy = estimate_energy(
        cpu_s=time_s * demand.vcpus,  # a worker keeps its threads busy
        wall_s=time_s,
        cores=offer.vcpus,
        idle_w=offer.idle_w,
        peak_w=offer.peak_w,
        exclusive=offer.purchase is not PurchaseOption.LOCAL,
        gco2e_per_kwh=assumed.gco2e_per_kwh.get(offer.region),
    )
    return energy.kwh, energy.gco2e


def _method(offer: Offer, time_s: float | None, assumed: Assumptions) -> str:
    memory = "memory: traced with margin"
    if time_s is None:
        return f"estimated, training only; time, cost and energy unknown: no figures for this hardware; {memory}"
    if offer.engine == "local":
        basis = "CPU seconds per step measured on this machine"
    else:
        basis = f"uncalibrated roofline at {REACHED_FLOP:g} of peak FLOP/s and {REACHED_BANDWIDTH:g} of bandwidth"
    start, rate = assumed.start_s[offer.engine], assumed.interruptions_per_h[offer.purchase]
    return (
        f"estimated, training only: {basis}; assumed {start:g} s to start, {assumed.save_s:g} s per checkpoint, "
        f"{rate:.2g} interruptions per hour; {memory}"
    )
