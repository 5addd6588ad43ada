"""Experience with rented capacity: attempts that ended, by what they ran on."""

from __future__ import annotations

import pytest

from include.core.clock import FakeClock
from include.core.contracts.experience import Experience
from include.ledger.experience import read_experience
from include.ledger.ledger import Ledger
from include.ledger.migrate import migrate

RUN = {"dag_id": "digits", "run_id": "manual__1"}
GROUP = "train-0123456789ab"


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def book(tmp_path, clock):
    url = f"sqlite:///{tmp_path}/ledger.db"
    migrate(url)
    ledger = Ledger(url, clock=clock)
    yield ledger
    ledger.dispose()


@pytest.fixture
def attempt(book, clock):
    """``attempt(reason, hours, ...)``: an attempt on a lease of its own."""

    def run(reason, hours, *, instance_type="g5.xlarge", purchase="spot"):
        intent = book.intent(group_id=GROUP, **RUN)
        details = {"instance_type": instance_type, "purchase": purchase}
        book.launched(group_id=GROUP, lease_id=intent.lease_id, details=details)
        number = book.begin_attempt(group_id=GROUP, job="train", lease_id=intent.lease_id, **RUN)
        if reason is None:
            return
        clock.sleep(hours * 3600)
        book.end_attempt(job="train", attempt=number, reason=reason, **RUN)
        book.ended(group_id=GROUP, lease_id=intent.lease_id, reason="done")

    return run


def test_nothing_was_seen_before_the_first_run(book):
    assert read_experience(book) == ()


def test_attempts_of_one_kind_are_taken_together(book, attempt):
    attempt("preempted", 2.0)
    attempt("lost", 1.0)
    attempt("done", 5.0)
    attempt("error", 0.5)
    assert read_experience(book) == (
        Experience(instance_type="g5.xlarge", purchase="spot", interruptions=2, hours=pytest.approx(8.5)),
    )


def test_kinds_are_kept_apart(book, attempt):
    attempt("preempted", 1.0)
    attempt("done", 3.0, purchase="on-demand")
    attempt("done", 4.0, instance_type="p4d.24xlarge")
    assert [(e.instance_type, e.purchase, e.interruptions, e.hours) for e in read_experience(book)] == [
        ("g5.xlarge", "on-demand", 0, pytest.approx(3.0)),
        ("g5.xlarge", "spot", 1, pytest.approx(1.0)),
        ("p4d.24xlarge", "spot", 0, pytest.approx(4.0)),
    ]


def test_own_machines_and_drills_on_them_teach_nothing(book, attempt):
    attempt("preempted", 1.0, instance_type="this-machine", purchase="local")
    assert read_experience(book) == ()


def test_an_attempt_that_still_runs_counts_for_nothing(book, attempt):
    attempt(None, 0)
    assert read_experience(book) == ()
