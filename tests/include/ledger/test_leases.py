from datetime import timedelta
from decimal import Decimal

import pytest

from include.core.errors import BudgetExceededError, GroupClosedError, UserError
from include.ledger.charges import Charge
from include.ledger.ledger import IntentLimits


def cost(usd, key="k", run_id="manual__2026-11-30"):
    return Charge(
        key=key,
        period_start="2026-11-30T00:00:00+00:00",
        period_end="2026-11-30T01:00:00+00:00",
        dag_id="digits",
        run_id=run_id,
        lease_id="train-x-g1",
        effective_cost_usd=None if usd is None else Decimal(usd),
    )


def kinds(ledger):
    return [event.kind for event in reversed(ledger.events())]


def test_an_open_lease_is_returned_and_an_ended_one_is_followed_by_the_next_generation(ledger, run, group):
    first = ledger.intent(group_id=group, **run)
    again = ledger.intent(group_id=group, **run)
    assert (first.created, again.created) == (True, False)
    assert first.lease_id == again.lease_id == f"{group}-g1"

    ledger.ended(group_id=group, lease_id=first.lease_id, reason="lost")
    second = ledger.intent(group_id=group, **run)
    assert (second.lease_id, second.generation, second.created) == (f"{group}-g2", 2, True)
    assert ledger.leases(group) == (f"{group}-g1", f"{group}-g2")
    assert ledger.open_lease(group) == f"{group}-g2"


def test_launched_and_ended_are_written_once(ledger, run, group):
    lease = ledger.intent(group_id=group, **run).lease_id
    assert ledger.launch_details(lease) is None
    assert ledger.launched(group_id=group, lease_id=lease, details={"usd_per_h": "0.42"})
    assert not ledger.launched(group_id=group, lease_id=lease, details={"usd_per_h": "9"})
    assert ledger.launch_details(lease) == {"usd_per_h": "0.42"}
    assert ledger.ended(group_id=group, lease_id=lease, reason="preempted", details={"step": 3})
    assert not ledger.ended(group_id=group, lease_id=lease, reason="released")

    end = ledger.events(kind="ended")[0]
    assert (end.reason, end.body, end.generation, end.run_id) == ("preempted", {"step": 3}, 1, run["run_id"])
    assert kinds(ledger) == ["intent", "launched", "ended"]


def test_a_launch_without_an_intent_is_an_error(ledger, group):
    with pytest.raises(LookupError, match="without an intent"):
        ledger.launched(group_id=group, lease_id=f"{group}-g1")


def test_the_end_of_a_lease_nobody_asked_for_is_recorded(ledger, group):
    assert ledger.ended(group_id=group, lease_id="train-foreign-g4", reason="reaped")
    assert not ledger.ended(group_id=group, lease_id="train-foreign-g4", reason="reaped")
    assert ledger.open_leases() == ()


def test_a_closed_group_refuses_intents_until_a_launch_reopens_it(ledger, run, group):
    ledger.intent(group_id=group, **run)
    assert ledger.close(group, **run)
    assert not ledger.close(group, **run)
    assert ledger.is_closed(group)
    ledger.ended(group_id=group, lease_id=f"{group}-g1", reason="released")
    with pytest.raises(GroupClosedError):
        ledger.intent(group_id=group, **run)

    assert ledger.intent(group_id=group, reopen=True, **run).lease_id == f"{group}-g2"
    assert not ledger.is_closed(group)
    assert kinds(ledger) == ["intent", "closed", "ended", "reopened", "intent"]


def test_a_release_that_comes_before_the_launch_wins(ledger, run, group):
    ledger.close(group, **run)
    with pytest.raises(GroupClosedError):
        ledger.intent(group_id=group, **run)
    assert ledger.leases(group) == ()


def test_reopening_an_open_group_writes_nothing(ledger, run, group):
    ledger.intent(group_id=group, reopen=True, **run)
    assert kinds(ledger) == ["intent"]


def test_open_leases_name_their_run(ledger, clock, run, group):
    ledger.intent(group_id=group, **run)
    clock.sleep(5)
    ledger.intent(group_id="control-0", dag_id="any", run_id="other")
    first, second = ledger.open_leases()
    assert (first.lease_id, first.group_id, first.run_id) == (f"{group}-g1", group, run["run_id"])
    assert (first.since, second.since) == ("2026-01-01T00:00:00+00:00", "2026-01-01T00:00:05+00:00")


def test_the_quota_counts_open_train_and_work_leases_of_all_runs(ledger, run, group):
    ledger.intent(group_id="control-0", **run)
    ledger.intent(group_id="work-1", dag_id="other", run_id="r")
    limits = IntentLimits(quota_leases=1)
    with pytest.raises(BudgetExceededError, match=r"found: 1 open .* allowed: 1 at once"):
        ledger.intent(group_id=group, limits=limits, **run)
    assert ledger.leases(group) == ()

    ledger.ended(group_id="work-1", lease_id="work-1-g1", reason="released")
    assert ledger.intent(group_id=group, limits=limits, **run).created
    # The own open lease is no new one: a retry of the launch passes.
    assert not ledger.intent(group_id=group, limits=limits, **run).created


def test_the_budget_counts_what_is_spent_promised_and_asked_for(ledger, run, group):
    ledger.charge(cost("0.50"))
    ledger.charge(cost("9.00", key="elsewhere", run_id="another"))
    ledger.charge(cost(None, key="unknown"))
    assert ledger.intent(
        group_id=group, limits=IntentLimits(budget_usd=Decimal("1.0"), commit_usd=Decimal("0.3")), **run
    ).created

    with pytest.raises(BudgetExceededError, match=r"0\.50 USD spent, 0\.3 USD promised .* 0\.21 USD asked") as refusal:
        ledger.intent(
            group_id="work-1", limits=IntentLimits(budget_usd=Decimal("1.0"), commit_usd=Decimal("0.21")), **run
        )
    assert isinstance(refusal.value, UserError)
    assert ledger.leases("work-1") == ()
    assert ledger.intent(
        group_id="work-1", limits=IntentLimits(budget_usd=Decimal("1.0"), commit_usd=Decimal("0.20")), **run
    ).created


def test_an_exceeded_budget_does_not_reopen_the_group(ledger, run, group):
    ledger.close(group, **run)
    limits = IntentLimits(budget_usd=Decimal(1), commit_usd=Decimal(2))
    with pytest.raises(BudgetExceededError):
        ledger.intent(group_id=group, reopen=True, limits=limits, **run)
    assert ledger.is_closed(group)
    assert kinds(ledger) == ["closed"]


def test_a_promise_ends_with_its_lease(ledger, run, group):
    limits = IntentLimits(budget_usd=Decimal(1), commit_usd=Decimal(1))
    for generation in (1, 2, 3):
        assert ledger.intent(group_id=group, limits=limits, **run).generation == generation
        ledger.ended(group_id=group, lease_id=f"{group}-g{generation}", reason="preempted")


def test_the_record_of_a_lease_tells_its_life(ledger, clock, run, group):
    lease = ledger.intent(group_id=group, details={"launched": "no"}, **run).lease_id
    asked = ledger.lease_record(lease)
    assert (asked.group_id, asked.dag_id, asked.run_id) == (group, run["dag_id"], run["run_id"])
    assert (asked.launched_at, asked.ended_at, asked.details) == (None, None, {})

    clock.sleep(1)
    ledger.launched(group_id=group, lease_id=lease, details={"usd_per_h": None})
    clock.sleep(1)
    ledger.ended(group_id=group, lease_id=lease, reason="released")
    over = ledger.lease_record(lease)
    assert (over.launched_at[17:19], over.ended_at[17:19], over.details) == ("01", "02", {"usd_per_h": None})
    assert ledger.lease_record("train-nobody-g1") is None


def test_leases_that_ended_long_ago_are_found_by_their_end(ledger, clock, run, group):
    for generation in (1, 2):
        ledger.intent(group_id=group, **run)
        ledger.ended(group_id=group, lease_id=f"{group}-g{generation}", reason="released")
        clock.sleep(100)
    ledger.intent(group_id=group, **run)
    assert ledger.ended_leases(before=clock.now() - timedelta(seconds=150)) == (f"{group}-g1",)
    assert ledger.ended_leases(before=clock.now()) == (f"{group}-g1", f"{group}-g2")


def test_a_released_group_is_reopened_once_without_a_lease(ledger, run):
    assert not ledger.reopen("train-x")
    ledger.close("train-x", **run)
    assert ledger.reopen("train-x")
    assert not ledger.reopen("train-x")
    assert not ledger.is_closed("train-x")
    assert ledger.open_lease("train-x") is None
    [event] = ledger.events(kind="reopened")
    assert (event.group_id, event.dag_id, event.run_id) == ("train-x", run["dag_id"], run["run_id"])
