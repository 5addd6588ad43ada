"""In which order candidates are tried. Pure.

Same type in another zone first, then the next offer: candidates keep the plan's order, in which the zones of a type are
drawn together behind its first one. What was lost lately goes to the end, and what was refused lately is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from include.compute.capacity_choice.changeover import usd_to_the_end
from include.compute.capacity_choice.pools import lost_until_s, refused_until_s
from include.compute.capacity_choice.question import Question, is_spot
from include.core.contracts.lease import LaunchCandidate


def affordable(question: Question) -> tuple[LaunchCandidate, ...]:
    """Candidates on which the rest fits into the budget; all where none does, for the intent's own check to refuse."""
    if question.usd_left is None:
        return question.candidates
    kept = tuple(
        candidate
        for candidate in question.candidates
        if (cost := usd_to_the_end(question, candidate)) is None or cost <= question.usd_left
    )
    return kept or question.candidates


def spot_in_order(question: Question, candidates: Sequence[LaunchCandidate]) -> list[LaunchCandidate]:
    """Spot candidates, the best one first."""
    return _drawn_together(question, [candidate for candidate in candidates if is_spot(candidate)])


def steady_in_order(question: Question, candidates: Sequence[LaunchCandidate]) -> list[LaunchCandidate]:
    """Candidates that nobody takes away, the cheapest to the end first; of unknown price last, in the plan's order."""
    steady = [candidate for candidate in candidates if not is_spot(candidate)]
    costs = {id(candidate): usd_to_the_end(question, candidate) for candidate in steady}
    return sorted(steady, key=lambda candidate: (costs[id(candidate)] is None, costs[id(candidate)] or 0))


def open_now(question: Question, candidates: Iterable[LaunchCandidate]) -> list[LaunchCandidate]:
    """Those that were not refused lately."""
    return [c for c in candidates if refused_until_s(c, question.past) <= question.now_s]


def reopens_in_s(question: Question, candidates: Iterable[LaunchCandidate]) -> float | None:
    """Seconds until the first of them is asked again, None without any."""
    waits = [refused_until_s(candidate, question.past) - question.now_s for candidate in candidates]
    return max(min(waits), 0.0) if waits else None


def _drawn_together(question: Question, candidates: Sequence[LaunchCandidate]) -> list[LaunchCandidate]:
    types = list(dict.fromkeys((c.instance_type, c.region) for c in candidates))
    if last := next((event for event in reversed(question.past) if event.what == "lost"), None):
        # What has just run is known to do; it goes on in another zone before another type is tried.
        types.sort(key=lambda place: place != (last.instance_type, last.region))
    rank = {place: number for number, place in enumerate(types)}

    def key(candidate: LaunchCandidate) -> tuple[bool, int]:
        return (
            lost_until_s(candidate, question.past) > question.now_s,
            rank[candidate.instance_type, candidate.region],
        )

    return sorted(candidates, key=key)
