"""Quotas of teams: what is refused for good, what waits, and in which order."""

from datetime import datetime, timedelta
from decimal import Decimal

import pytest

from include.config.quota_file import Limits, TeamQuota
from include.core.clock import FakeClock
from include.core.errors import BudgetExceededError, GroupClosedError, QueuedError
from include.ledger.charges import Charge
from include.ledger.ledger import IntentLimits, Ledger
from include.ledger.quota import ASK_AGAIN_S, KEEPS_PLACE_S, OVERTAKEN_FOR_S

FOUR = TeamQuota(gpus=4)


def asks(gpus=1, *, team="vision", quota=FOUR, usd_per_h=None, **fields):
    price = None if usd_per_h is None else Decimal(usd_per_h)
    return IntentLimits(team=team, gpus=gpus, usd_per_h=price, quota=quota, **fields)


def ask(ledger, name, gpus=1, **fields):
    """The lease, or None with a place in the queue."""
    reopen = fields.pop("reopen", False)
    try:
        return ledger.intent(
            group_id=f"train-{name}", dag_id="d", run_id=name, reopen=reopen, limits=asks(gpus, **fields)
        )
    except QueuedError:
        return None


def position(ledger, name, gpus=1, **fields):
    with pytest.raises(QueuedError) as waits:
        ledger.intent(group_id=f"train-{name}", dag_id="d", run_id=name, limits=asks(gpus, **fields))
    return waits.value.position


def end(ledger, name, generation=1):
    ledger.ended(group_id=f"train-{name}", lease_id=f"train-{name}-g{generation}", reason="released")


def waiting(ledger, team=None):
    return [entry.run_id for entry in ledger.queue(team)]


def bill(ledger, name, usd, since, until, **fields):
    ledger.charge(
        Charge(
            key=f"lease:{name}:{since}:{usd}",
            period_start=since,
            period_end=until,
            dag_id="d",
            run_id=name,
            lease_id=f"train-{name}-g1",
            effective_cost_usd=None if usd is None else Decimal(usd),
            **fields,
        )
    )


def test_a_lease_beyond_the_quota_waits_and_says_where_it_stands(ledger):
    assert ask(ledger, "a", 3).created
    with pytest.raises(QueuedError) as waits:
        ledger.intent(group_id="train-b", dag_id="d", run_id="b", limits=asks(2))
    assert (waits.value.position, waits.value.retry_after_s) == (1, ASK_AGAIN_S)
    assert "d b waits for its quota, number 1 of 1" in str(waits.value)
    assert "asked for: 2 GPUs" in str(waits.value)
    assert "team vision: 3 of 4 GPUs by 1 leases" in str(waits.value)
    assert ledger.leases("train-b") == ()
    assert position(ledger, "c", 3) == 2
    assert [(entry.run_id, entry.gpus) for entry in ledger.queue("vision")] == [("b", 2), ("c", 3)]
    assert ledger.queue("speech") == ()


def test_asking_again_keeps_the_place_and_makes_no_second_one(ledger, clock):
    ask(ledger, "a", 4)
    assert position(ledger, "b") == 1
    assert position(ledger, "c") == 2
    clock.sleep(ASK_AGAIN_S)
    assert position(ledger, "c") == 2
    assert position(ledger, "b", 2) == 1
    first, second = ledger.queue()
    assert (first.gpus, first.since, first.asked_at[17:19], second.run_id) == (
        2,
        "2026-01-01T00:00:00+00:00",
        "30",
        "c",
    )


def test_a_lease_that_ends_makes_room_for_the_first(ledger):
    ask(ledger, "a", 4)
    ask(ledger, "b", 4)
    ask(ledger, "c", 4)
    end(ledger, "a")
    assert ask(ledger, "c", 4) is None
    assert ask(ledger, "b", 4).created
    assert waiting(ledger) == ["c"]
    # A retry of the launch is no new lease.
    assert not ask(ledger, "b", 4).created


def test_who_fits_beside_those_before_it_need_not_wait_for_them_to_ask(ledger):
    ask(ledger, "a", 4)
    ask(ledger, "b", 2)
    ask(ledger, "c", 2)
    ask(ledger, "d", 1)
    end(ledger, "a")
    assert ask(ledger, "d", 1) is None
    assert ask(ledger, "c", 2).created
    assert ask(ledger, "b", 2).created
    assert waiting(ledger) == ["d"]


def test_the_higher_priority_goes_first_whenever_it_came(ledger, clock):
    ask(ledger, "a", 4)
    ask(ledger, "low", 4, priority=-1)
    clock.sleep(1)
    ask(ledger, "first", 4)
    clock.sleep(1)
    ask(ledger, "second", 4)
    assert position(ledger, "high", 4, priority=7) == 1
    assert waiting(ledger) == ["high", "first", "second", "low"]
    end(ledger, "a")
    for name in ("low", "first", "second"):
        assert ask(ledger, name, 4, priority=-1 if name == "low" else 0) is None
    assert ask(ledger, "high", 4, priority=7).created


def test_a_small_lease_is_let_past_a_large_one_but_not_for_ever(ledger, clock):
    ask(ledger, "a", 2)
    ask(ledger, "large", 4)
    assert ask(ledger, "small-1", 1).created
    for _ in range(int(OVERTAKEN_FOR_S / 300)):
        clock.sleep(300)
        ask(ledger, "large", 4)
    assert ask(ledger, "small-2", 1) is None
    assert ask(ledger, "nothing", 0).created
    end(ledger, "a")
    end(ledger, "small-1")
    assert ask(ledger, "small-2", 1) is None
    assert ask(ledger, "large", 4).created


def test_who_stops_asking_loses_its_place(ledger, clock):
    ask(ledger, "a", 4)
    ask(ledger, "gone", 4)
    clock.sleep(KEEPS_PLACE_S - 1)
    ask(ledger, "b", 4)
    end(ledger, "a")
    assert ask(ledger, "b", 4) is None
    clock.sleep(2)
    assert waiting(ledger) == ["b"]
    assert ask(ledger, "b", 4).created
    assert position(ledger, "gone", 4) == 1
    assert ledger.queue()[0].since == "2026-01-01T00:10:01+00:00"


def test_a_closed_group_leaves_the_queue_and_does_not_come_back(ledger):
    ask(ledger, "a", 4)
    ask(ledger, "b", 4)
    ask(ledger, "c", 4)
    assert ledger.close("train-b", dag_id="d", run_id="b")
    assert waiting(ledger) == ["c"]
    with pytest.raises(GroupClosedError):
        ledger.intent(group_id="train-b", dag_id="d", run_id="b", limits=asks(4))
    assert waiting(ledger) == ["c"]


def test_a_group_that_is_opened_again_waits_as_an_open_one(ledger):
    ask(ledger, "a", 4)
    ledger.close("train-b", dag_id="d", run_id="b")
    assert ask(ledger, "b", 4, reopen=True) is None
    assert not ledger.is_closed("train-b")
    end(ledger, "a")
    assert ask(ledger, "b", 4).created  # the wait that follows the launch opens nothing


def test_a_run_that_lost_its_lease_goes_before_those_that_never_had_one(ledger, clock):
    ask(ledger, "a", 2)
    ask(ledger, "interrupted", 2)
    clock.sleep(60)
    ask(ledger, "b", 2)
    clock.sleep(60)
    end(ledger, "interrupted")
    assert ask(ledger, "b", 2).created
    assert ask(ledger, "c", 2) is None
    assert position(ledger, "interrupted", 2) == 1
    # Once it was released and opened again, it is a newcomer like others.
    ledger.close("train-interrupted", dag_id="d", run_id="interrupted")
    clock.sleep(1)
    assert ask(ledger, "interrupted", 2, reopen=True) is None
    assert waiting(ledger) == ["c", "interrupted"]


def test_teams_do_not_stand_in_each_others_way(ledger):
    ask(ledger, "a", 4)
    ask(ledger, "b", 4)
    assert ask(ledger, "s", 4, team="speech").created
    assert position(ledger, "t", 1, team="speech") == 1
    assert waiting(ledger, "vision") == ["b"]


def test_all_teams_together_have_limits_and_the_priority_of_teams_decides(ledger):
    total = Limits(gpus=4)
    ask(ledger, "a", 4, total=total)
    assert position(ledger, "s", 4, team="speech", total=total) == 1
    assert position(ledger, "v", 4, priority=3, total=total) == 1
    assert position(ledger, "s", 4, team="speech", total=total) == 2
    end(ledger, "a")
    with pytest.raises(QueuedError, match="all teams: 0 of 4 GPUs by 0 leases"):
        ledger.intent(
            group_id="train-s", dag_id="d", run_id="s", limits=asks(4, team="speech", quota=None, total=total)
        )
    assert ask(ledger, "v", 4, priority=3, total=total).created


def test_a_team_at_its_own_quota_keeps_nothing_from_the_others(ledger, clock):
    total = Limits(gpus=8)
    ask(ledger, "a", 4, total=total)
    ask(ledger, "b", 4, total=total)
    for _ in range(4):
        clock.sleep(300)
        ask(ledger, "b", 4, total=total)
    assert ask(ledger, "s", 4, team="speech", total=total).created


def test_dollars_per_hour_are_counted_like_gpus(ledger):
    quota = TeamQuota(usd_per_h=Decimal("1.5"))
    ask(ledger, "a", 8, quota=quota, usd_per_h="1.1")
    with pytest.raises(QueuedError, match=r"asked for: 8 GPUs at 0\.5 USD per hour .* 8 of any GPUs, 1\.1 of 1\.5 USD"):
        ledger.intent(group_id="train-b", dag_id="d", run_id="b", limits=asks(8, quota=quota, usd_per_h="0.5"))
    assert ask(ledger, "c", 8, quota=quota, usd_per_h="0.4").created


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (asks(5), r"found: 5 GPUs asked for \| allowed: 4 GPUs of team vision"),
        (asks(3, quota=None, total=Limits(gpus=2)), "allowed: 2 GPUs of all teams together"),
        (asks(1, quota=TeamQuota(usd_per_h=1), usd_per_h="1.01"), "allowed: 1 USD per hour of team vision"),
        (asks(1, quota=TeamQuota(usd_per_h=1)), "a lease without a known price"),
        (asks(1, quota=TeamQuota(usd_per_month=9), commit_usd=Decimal("9.5")), "9 USD per month of team vision"),
        (asks(1, quota=TeamQuota(usd_per_month=0)), "an unknown sum asked for"),
    ],
)
def test_what_no_quota_ever_gives_is_refused_at_once(ledger, run, group, limits, message):
    with pytest.raises(BudgetExceededError, match=message):
        ledger.intent(group_id=group, limits=limits, **run)
    assert ledger.queue() == ()
    assert ledger.events() == ()


def test_the_month_counts_what_is_spent_promised_and_asked_for(ledger, clock):
    quota = TeamQuota(usd_per_month=Decimal(10))
    clock.sleep(timedelta(days=14).total_seconds())
    for name, usd in (("a", "1"), ("b", "2")):
        ask(ledger, name, quota=quota, commit_usd=Decimal(usd))
    end(ledger, "a")
    bill(ledger, "a", "4.00", "2026-01-14T00:00:00+00:00", "2026-01-15T00:00:00+00:00")
    bill(ledger, "a", None, "2026-01-14T00:00:00+00:00", "2026-01-15T00:00:00+00:00")
    ask(ledger, "s", team="speech", commit_usd=Decimal(50))
    bill(ledger, "s", "70", "2026-01-14T00:00:00+00:00", "2026-01-15T00:00:00+00:00")
    with pytest.raises(BudgetExceededError) as refusal:
        ask(ledger, "c", quota=quota, commit_usd=Decimal("4.01"))
    text = str(refusal.value)
    assert "4.0 USD spent this month, 2 USD promised to open leases, 4.01 USD asked for" in text.replace("4.00", "4.0")
    assert "wait for 2026-02-01 (UTC)" in text
    assert ask(ledger, "c", quota=quota, commit_usd=Decimal("4.00")).created
    uses = {use.team: use for use in ledger.team_uses()}
    assert (uses["vision"].spent_usd, uses["vision"].promised_usd, uses["vision"].month) == (4, 6, "2026-01-01")
    assert (uses["speech"].spent_usd, uses["speech"].gpus, uses["speech"].leases) == (70, 1, 1)


def test_a_month_is_half_open_and_a_charge_over_its_turn_is_divided(sqlite_ledger, clock):
    ledger = sqlite_ledger
    ask(ledger, "a")
    end(ledger, "a")
    bill(ledger, "a", "30", "2026-01-31T18:00:00+00:00", "2026-02-01T00:00:00+00:00")
    bill(ledger, "a", "4", "2026-01-31T23:00:00+00:00", "2026-02-01T03:00:00+00:00")
    bill(ledger, "a", "0.5", "2026-02-01T00:00:00+00:00", "2026-02-01T00:00:00+00:00")
    clock.current = datetime.fromisoformat("2026-01-31T23:59:59+00:00")
    assert [use.spent_usd for use in ledger.team_uses()] == [31]
    clock.sleep(1)
    assert [(use.spent_usd, use.month) for use in ledger.team_uses()] == [(Decimal("3.5"), "2026-02-01")]
    clock.current = datetime.fromisoformat("2026-12-31T00:00:00+00:00")
    with pytest.raises(BudgetExceededError, match="wait for 2027-01-01"):
        ask(ledger, "b", quota=TeamQuota(usd_per_month=1), commit_usd=Decimal(2))


def test_a_corrected_charge_counts_once(sqlite_ledger):
    ledger = sqlite_ledger
    ask(ledger, "a")
    bill(ledger, "a", "30", "2026-01-01T00:00:00+00:00", "2026-01-01T01:00:00+00:00")
    replaced = "lease:a:2026-01-01T00:00:00+00:00:30"
    bill(ledger, "a", "7", "2026-01-01T00:00:00+00:00", "2026-01-01T01:00:00+00:00", supersedes=replaced)
    assert ledger.team_uses()[0].spent_usd == 7


def test_who_is_refused_for_good_gives_up_its_place(ledger):
    ask(ledger, "a", 4)
    ask(ledger, "b", 4)
    with pytest.raises(BudgetExceededError):
        ask(ledger, "b", 5)
    assert waiting(ledger) == []


def test_leases_of_nobody_are_counted_by_no_quota(ledger):
    ledger.intent(group_id="control-0", dag_id="", run_id="")
    assert ledger.team_uses() == ()
    assert ask(ledger, "a", 4).created


def test_a_ledger_without_quota_has_no_queue(tmp_path):
    from include.ledger.migrate import migrate

    migrate(f"sqlite:///{tmp_path}/plain.db")
    ledger = Ledger(f"sqlite:///{tmp_path}/plain.db", clock=FakeClock())
    limits = IntentLimits(team="vision", gpus=64, usd_per_h=Decimal(99))
    assert ledger.intent(group_id="train-a", dag_id="d", run_id="a", limits=limits).created
    assert ledger.queue() == ()
    assert ledger.team_uses()[0].usd_per_h == 99
    ledger.dispose()
