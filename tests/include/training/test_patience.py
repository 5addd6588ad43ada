from __future__ import annotations

import pytest
from obstore.exceptions import GenericError, PermissionDeniedError

from include.core.errors import StoreError
from include.training import patience
from include.training.patience import Patience, patiently


class Clock:
    """Time that passes by sleeping alone."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(patience, "time", made)
    return made


def refuse() -> None:
    raise GenericError("connection refused")


def test_a_store_that_does_not_answer_is_asked_for_as_long_as_allowed(clock: Clock) -> None:
    with pytest.raises(StoreError, match="connection refused"):
        patiently(refuse, patience=Patience(60))
    assert 154 < clock.now <= 160


def test_a_notice_cuts_it_to_half_of_the_time_that_is_left(clock: Clock) -> None:
    patient = Patience(60, lambda: 20 if clock.now >= 105 else None)
    with pytest.raises(StoreError):
        patiently(refuse, patience=patient)
    noticed_at = 107  # at the next try
    assert noticed_at < clock.now <= noticed_at + 10
    assert patient.unanswered


def test_what_hangs_is_waited_for_longer_than_what_has_failed(clock: Clock) -> None:
    hanging, failing = (Patience(60, lambda: 20, unanswered=unanswered) for unanswered in (False, True))
    assert not hanging.is_over()
    assert not failing.is_over()
    clock.now += 11
    assert not hanging.is_over()
    assert failing.is_over()
    clock.now += 6
    assert hanging.is_over()


def test_without_a_notice_waiting_never_ends(clock: Clock) -> None:
    patient = Patience(60)
    clock.now += 10**6
    assert not patient.is_over()


def test_an_answer_is_the_end_of_it(clock: Clock) -> None:
    answers = [GenericError("reset"), GenericError("reset"), 7]

    def act() -> int:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    patient = Patience(60)
    assert patiently(act, patience=patient) == 7
    assert not patient.unanswered


def test_what_no_waiting_mends_is_not_waited_for(clock: Clock) -> None:
    def refuse_for_good() -> None:
        raise PermissionDeniedError("403")

    with pytest.raises(StoreError, match="403"):
        patiently(refuse_for_good, patience=Patience(60))
    assert clock.now == 100
