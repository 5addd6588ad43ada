import pytest
from hypothesis import given
from hypothesis import strategies as st

from include.ledger.paid_time import AttemptSeconds, split_paid_time

seconds = st.floats(0, 1e6)
attempts = st.lists(
    st.builds(
        AttemptSeconds,
        reason=st.sampled_from(["done", "preempted", "lost", "signal", "error"]),
        seconds=seconds,
        lost_s=seconds,
    ),
    max_size=5,
)


def ms(value):
    return round(value * 1000)


@given(paid_s=seconds, ran=attempts)
def test_the_parts_add_up_to_what_was_paid_for(paid_s, ran):
    split = split_paid_time(paid_s=paid_s, attempts=ran)
    assert min(split.useful_s, split.lost_s, split.idle_s) >= 0
    assert ms(split.useful_s) + ms(split.lost_s) + ms(split.idle_s) == ms(split.paid_s) == ms(paid_s)


@pytest.mark.parametrize(
    ("reason", "lost_s", "useful", "lost"),
    [
        ("done", None, 60.0, 0.0),
        ("done", 60.0, 60.0, 0.0),
        ("preempted", 0.0, 60.0, 0.0),
        ("signal", 12.5, 47.5, 12.5),
        ("lost", 60.0, 0.0, 60.0),
        ("error", 99.0, 0.0, 60.0),
    ],
)
def test_an_attempt_keeps_what_its_last_checkpoint_holds(reason, lost_s, useful, lost):
    split = split_paid_time(paid_s=100.0, attempts=[AttemptSeconds(reason=reason, seconds=60.0, lost_s=lost_s)])
    assert (split.useful_s, split.lost_s, split.idle_s) == (useful, lost, 40.0)


def test_an_unknown_loss_leaves_useful_and_lost_unknown_and_idle_known():
    ran = [
        AttemptSeconds(reason="done", seconds=10, lost_s=None),
        AttemptSeconds(reason="lost", seconds=5, lost_s=None),
    ]
    split = split_paid_time(paid_s=20, attempts=ran)
    assert (split.useful_s, split.lost_s, split.idle_s, split.paid_s) == (None, None, 5.0, 20.0)


def test_seconds_beyond_the_paid_life_are_taken_from_the_useful_part():
    ran = [AttemptSeconds(reason="done", seconds=80, lost_s=None), AttemptSeconds(reason="lost", seconds=40, lost_s=30)]
    split = split_paid_time(paid_s=100, attempts=ran)
    assert (split.useful_s, split.lost_s, split.idle_s) == (70.0, 30.0, 0.0)
