"""What is believed of each candidate's capacity: had, refused, lost, and for how long that counts. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from include.compute.capacity_choice.question import PoolEvent, Question, is_spot
from include.core.contracts.lease import LaunchCandidate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# A spot pool that had no capacity is asked again after so long, and each time that it has none after twice as long; on
# demand, which a deadline may hang on, after a minute each time.
REFUSED_FOR_S = 120.0
REFUSED_AT_MOST_S = 3600.0
STEADY_REFUSED_FOR_S = 60.0
# A pool that took capacity away comes last for so long. In the availability traces of Wu et al. (NSDI'24) absence ends
# within minutes or lasts for hours.
LOST_FOR_S = 1800.0
# Ticks that are looked back at: more say nothing more.
_LONGEST_TICKS = 2000


def events_of(candidate: LaunchCandidate, past: Sequence[PoolEvent]) -> list[PoolEvent]:
    """What was seen of one candidate, oldest first."""
    return [event for event in past if event.is_of(candidate)]


def refused_until_s(candidate: LaunchCandidate, past: Sequence[PoolEvent]) -> float:
    """POSIX seconds until which it is not asked again; minus infinity where it was not refused last."""
    seen = events_of(candidate, past)
    refusals = 0
    for event in reversed(seen):
        if event.what != "refused":
            break
        refusals += 1
    if not refusals:
        return -math.inf
    if not is_spot(candidate):
        return seen[-1].at_s + STEADY_REFUSED_FOR_S
    return seen[-1].at_s + min(REFUSED_FOR_S * 2.0 ** min(refusals - 1, 10), REFUSED_AT_MOST_S)


def lost_until_s(candidate: LaunchCandidate, past: Sequence[PoolEvent]) -> float:
    """POSIX seconds until which it comes last since it was taken away; a candidate of any zone never does.

    Such a candidate stands for zones that did not take anything away as well, among which the provider chooses.
    """
    if candidate.zone is None:
        return -math.inf
    lost = [event.at_s for event in events_of(candidate, past) if event.what == "lost"]
    return lost[-1] + LOST_FOR_S if lost else -math.inf


def chance_open(candidate: LaunchCandidate, past: Sequence[PoolEvent]) -> float:
    """Chance that a try succeeds, from earlier tries; one success in two tries is believed beforehand."""
    seen = [event.what for event in events_of(candidate, past)]
    had, refused = seen.count("had"), seen.count("refused")
    return (1 + had) / (2 + had + refused)


def availability(
    pools: Sequence[LaunchCandidate], question: Question, *, tick_s: float, open_now: Sequence[bool]
) -> NDArray[np.bool_]:
    """Whether each pool could be had, by tick, shape (pools, ticks); the last tick is now.

    What nobody has seen counts as there: a pool that was never asked is worth asking.
    """
    import numpy as np  # noqa: PLC0415 - an operator without a choice to make does without it

    first_s = min((event.at_s for event in question.past), default=question.now_s)
    ticks = min(max(int((question.now_s - first_s) / tick_s) + 1, 2), _LONGEST_TICKS)
    begin_s = question.now_s - (ticks - 1) * tick_s
    table = np.ones((len(pools), ticks), dtype=np.bool_)
    for row, pool in enumerate(pools):
        for event in events_of(pool, question.past):
            since = max(0, math.ceil((event.at_s - begin_s) / tick_s))
            if event.what == "lost":
                table[row, since : since + max(1, math.ceil(LOST_FOR_S / tick_s))] = False
            elif event.what == "refused":
                table[row, since : since + max(1, math.ceil(REFUSED_FOR_S / tick_s))] = False
            else:
                table[row, since:] = True
        table[row, -1] = open_now[row]
    return table
