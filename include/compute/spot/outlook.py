"""What the past of some zones says about how soon spot goes and comes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_HOUR_S = 3600.0
# Past that is looked at. Zones change over weeks, and a week of one zone has few losses to learn from.
WINDOW_H = 30 * 24.0
# Availability younger than this is called fresh: it is lost, and absence ends, more often than when it has lasted.
FRESH_H = 0.5
# What is believed of a zone without a past: one loss in twelve hours, back within three; weighs as much as these hours.
PRIOR_HOURS_UP = 12.0
PRIOR_HOURS_DOWN = 3.0
# Fresh and lasting hours start from the zone's overall rate, with the weight of so many hours.
_SPLIT_WEIGHT_H = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """Rates per hour of a market that is up or down, each fresh or lasting.

    Attributes:
        fresh_loss_per_h: Losses of spot that has been there for less than `FRESH_H`.
        lasting_loss_per_h: Losses of spot that has been there for longer.
        fresh_return_per_h: Returns after an absence of all zones of less than `FRESH_H`.
        lasting_return_per_h: Returns after a longer one.
        hop: Share of losses at which another zone is open; 0 with one zone.
        loss_per_h: Losses by zone.
    """

    fresh_loss_per_h: float
    lasting_loss_per_h: float
    fresh_return_per_h: float
    lasting_return_per_h: float
    hop: float
    loss_per_h: tuple[float, ...]


def look_back(history: NDArray[np.bool_], *, tick_s: float) -> Outlook:
    """Estimate the rates from availability by zone and tick, shape (zones, ticks), the newest last."""
    tick_h = tick_s / _HOUR_S
    past = history[:, -int(WINDOW_H / tick_h) - 1 :]
    fresh_ticks = FRESH_H / tick_h
    up, lost = past[:, :-1], past[:, :-1] & ~past[:, 1:]
    fresh = np.stack([_age(zone)[:-1] < fresh_ticks for zone in past])
    any_up = np.asarray(past.any(axis=0), dtype=np.bool_)
    down, returned = ~any_up[:-1], ~any_up[:-1] & any_up[1:]
    down_fresh = _age(any_up)[:-1] < fresh_ticks
    losses, up_h = int(lost.sum()), float(up.sum()) * tick_h
    loss = (losses + 1) / (up_h + PRIOR_HOURS_UP)
    back = (int(returned.sum()) + 1) / (float(down.sum()) * tick_h + PRIOR_HOURS_DOWN)
    return Outlook(
        fresh_loss_per_h=_rate(lost & fresh, up & fresh, tick_h, prior=loss),
        lasting_loss_per_h=_rate(lost & ~fresh, up & ~fresh, tick_h, prior=loss),
        fresh_return_per_h=_rate(returned & down_fresh, down & down_fresh, tick_h, prior=back),
        lasting_return_per_h=_rate(returned & ~down_fresh, down & ~down_fresh, tick_h, prior=back),
        hop=float((lost & any_up[1:]).sum() / (losses + 1)) if len(past) > 1 else 0.0,
        loss_per_h=tuple(
            (float(gone.sum()) + 1) / (float(there.sum()) * tick_h + PRIOR_HOURS_UP)
            for gone, there in zip(lost, up, strict=True)
        ),
    )


def _rate(events: NDArray[np.bool_], exposure: NDArray[np.bool_], tick_h: float, *, prior: float) -> float:
    return float((events.sum() + _SPLIT_WEIGHT_H * prior) / (exposure.sum() * tick_h + _SPLIT_WEIGHT_H))


def _age(values: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Ticks since the last change, at each tick."""
    places = np.arange(len(values))
    changed = np.concatenate(([True], values[1:] != values[:-1]))
    return places - np.maximum.accumulate(np.where(changed, places, 0))
