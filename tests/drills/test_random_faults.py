"""Random fault sequences: whatever goes wrong, nothing leaks or is there twice, no commit is lost, the bill is right.

Real driver, ledger, EC2 engine, release and reaper on the EC2 double and simulated agents, on virtual time; the faults
of a sequence follow from its seed. `tests.support.fault_world` plays one again and tells its story.
"""

from __future__ import annotations

import pytest

from tests.support.fault_world import play, story

# Sixty that take about half a CPU second each; some of the thousand wait for capacity for an hour of virtual time.
SHORT = range(60, 120)
ALL = 1000
BATCH = 50


def wrong_of(seeds: range) -> list[str]:
    """Stories of the sequences that end badly."""
    stories = []
    for seed in seeds:
        world, wrong = play(seed)
        if wrong:
            stories.append(story(world, wrong))
    return stories


@pytest.mark.drill
@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", SHORT[::20])
def test_random_faults(first: int) -> None:
    stories = wrong_of(range(first, first + 20))
    assert not stories, "\n\n".join(stories)


@pytest.mark.drill
@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", range(0, ALL, BATCH))
def test_many_random_faults(first: int) -> None:
    stories = wrong_of(range(first, first + BATCH))
    assert not stories, "\n\n".join(stories)
