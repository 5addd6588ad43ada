from __future__ import annotations

import itertools

import pytest

from include.training.retention import CommittedCheckpoint, RetentionPolicy, to_keep


def checkpoints(*steps: int, metrics: dict[int, float] | None = None, damaged: tuple[int, ...] = (), good: int = 0):
    return [
        CommittedCheckpoint(
            name=f"step-{step}-1",
            step=step,
            attempt=1,
            metric=(metrics or {}).get(step),
            damaged=True if step in damaged else False if step == good else None,
        )
        for step in steps
    ]


def kept(*arguments, referenced=(), **policy) -> list[int]:
    names = to_keep(*arguments, RetentionPolicy(**policy), referenced=referenced)
    return sorted(int(name.split("-")[1]) for name in names)


def test_last_ones_stay_by_step_and_then_attempt_as_numbers() -> None:
    assert kept(checkpoints(9, 10, 100, 11), keep_last=2) == [11, 100]
    twice = [CommittedCheckpoint(name=f"step-5-{attempt}", step=5, attempt=attempt) for attempt in (9, 10)]
    assert to_keep(twice, RetentionPolicy(keep_last=1)) == {"step-5-10"}


def test_best_by_metric_stays_and_of_equals_the_earlier_one() -> None:
    found = checkpoints(1, 2, 3, 4, metrics={1: 0.5, 2: 0.9, 3: 0.9})
    assert kept(found, keep_last=1, keep_best=1) == [2, 4]
    assert kept(found, keep_last=1, keep_best=2) == [2, 3, 4]
    assert kept(found, keep_last=1, keep_best=0) == [4]


def test_every_nth_step_stays() -> None:
    assert kept(checkpoints(10, 15, 20, 25, 30, 35), keep_last=1, keep_every=10) == [10, 20, 30, 35]


@pytest.mark.parametrize("reference", ["step-2-1", "s3://bucket/runs/w/r/checkpoints/step-2-1/COMMIT.json"])
def test_referenced_one_stays_even_if_damaged(reference: str) -> None:
    assert kept(checkpoints(1, 2, 3, damaged=(2,)), keep_last=1, referenced=[reference]) == [2, 3]
    assert kept(checkpoints(1, 2, 3), keep_last=1, referenced=["step-2-11", "step-22-1"]) == [3]


def test_damaged_one_never_takes_the_place_of_another() -> None:
    assert kept(checkpoints(1, 2, 3, 4, damaged=(3, 4)), keep_last=1) == [2]
    assert kept(checkpoints(1, 2, damaged=(1, 2)), keep_last=1) == [1, 2]


def test_last_valid_one_always_stays() -> None:
    """Over all small cases: the newest that is known to be good stays, and something always does."""
    for states in itertools.product((None, True, False), repeat=4):
        found = [
            CommittedCheckpoint(name=f"step-{n}-1", step=n, attempt=1, damaged=state) for n, state in enumerate(states)
        ]
        names = to_keep(found, RetentionPolicy(keep_last=1, keep_best=0))
        good = [c.name for c in found if c.damaged is False]
        assert names
        assert not good or good[-1] in names


@pytest.mark.parametrize("wrong", [{"keep_last": 0}, {"keep_best": -1}, {"keep_every": -1}])
def test_policy_that_keeps_nothing_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at least the last"):
        RetentionPolicy(**wrong)
