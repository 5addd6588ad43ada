"""The end of an instance that nobody dates."""

from datetime import UTC, datetime, timedelta

import pytest

from include.compute.ec2.lease_view import first_look

BEAT = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize("later_s", [0, 5, 7200])
def test_the_first_look_dates_the_end(later_s):
    now = BEAT + timedelta(seconds=later_s)
    assert first_look({"at": BEAT.isoformat()}, now=now) == now


def test_an_agent_that_never_spoke_says_nothing():
    assert first_look({}, now=BEAT) == BEAT


def test_a_clock_that_was_set_back_does_not_shorten_the_life_of_an_agent():
    # The agent beat at noon and gave up 120 s after it could not reach the store any more.
    found = first_look({"at": BEAT.isoformat()}, now=BEAT - timedelta(hours=2))
    assert found == BEAT + timedelta(seconds=120)
