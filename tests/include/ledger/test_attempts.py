import pytest

from include.core.errors import GroupClosedError

CONTROL = {"group_id": "control-0", "lease_id": "control-0-g1"}


def begin(ledger, run, job="train", **changes):
    return ledger.begin_attempt(job=job, **{**CONTROL, **run, **changes})


def test_numbers_grow_only_after_an_end(ledger, run):
    assert begin(ledger, run) == 1
    assert begin(ledger, run) == 1
    assert ledger.end_attempt(job="train", attempt=1, reason="lost", details={"step": 9}, **run)
    assert not ledger.end_attempt(job="train", attempt=1, reason="done", **run)
    assert begin(ledger, run, details={"from": 9}) == 2

    first, second = ledger.attempts(**run)
    assert (first.number, first.reason, first.end_details) == (1, "lost", {"step": 9})
    assert (second.number, second.reason, second.ended_at, second.details) == (2, None, None, {"from": 9})


def test_runs_that_share_the_control_lease_count_for_themselves(ledger, run):
    other = {"dag_id": run["dag_id"], "run_id": "another"}
    begin(ledger, run)
    assert begin(ledger, other) == 1
    ledger.end_attempt(job="train", attempt=1, reason="done", **other)
    assert ledger.open_attempt(job="train", **run).number == 1
    assert ledger.open_attempt(job="train", **other) is None
    assert begin(ledger, run, job="compress.int8") == 1


def test_open_attempts_of_a_group_are_what_a_release_has_to_end(ledger, run, group):
    begin(ledger, run)
    begin(ledger, run, job="a", group_id=group, lease_id=f"{group}-g1")
    begin(ledger, run, job="b", group_id=group, lease_id=f"{group}-g1")
    ledger.end_attempt(job="a", attempt=1, reason="done", **run)
    (left,) = ledger.open_attempts(group_id=group)
    assert (left.job, left.lease_id, left.dag_id, left.run_id) == ("b", f"{group}-g1", run["dag_id"], run["run_id"])


def test_only_interruptions_count_as_preemptions(ledger, run):
    for number, reason in enumerate(("preempted", "error", "lost", "signal", "done"), start=1):
        assert begin(ledger, run) == number
        ledger.end_attempt(job="train", attempt=number, reason=reason, **run)
    assert ledger.preemptions(job="train", **run) == 3
    assert ledger.preemptions(job="evaluate", **run) == 0


def test_an_attempt_does_not_begin_on_a_released_group(ledger, run, group):
    lease = ledger.intent(group_id=group, **run).lease_id
    ledger.close(group, **run)
    with pytest.raises(GroupClosedError):
        begin(ledger, run, group_id=group, lease_id=lease)
    assert ledger.attempts(**run) == ()


def test_an_attempt_that_never_began_cannot_end(ledger, run):
    with pytest.raises(LookupError, match="no attempt 3"):
        ledger.end_attempt(job="train", attempt=3, reason="done", **run)


def test_times_are_those_of_the_clock(ledger, clock, run):
    begin(ledger, run)
    clock.sleep(61.5)
    ledger.end_attempt(job="train", attempt=1, reason="done", **run)
    (attempt,) = ledger.attempts(**run)
    assert (attempt.started_at, attempt.ended_at) == ("2026-01-01T00:00:00+00:00", "2026-01-01T00:01:01.500000+00:00")
