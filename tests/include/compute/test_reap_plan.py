"""Which leases end and which are kept: every rule, and every reason not to follow it."""

import pytest

from include.compute.ec2.resource import Kind, Resource
from include.compute.reap_plan import LeaseFacts, ReapLimits, plan_reaping

NOW = 10_000.0
RUN = ("d", "r")


def lease(number=1, **changes):
    fields = {"group_id": "train-a", "dag_id": "d", "run_id": "r", "alive": True, "known": True}
    fields |= {"generation": number, "expires_at": NOW + 60}
    return LeaseFacts(lease_id=f"{changes.get('group_id', 'train-a')}-g{number}", **(fields | changes))


def resource(kind=Kind.VOLUME, *, age=3600.0, **changes):
    fields = {"state": "available", "tags": {}, "created_at": NOW - age}
    return Resource(kind=kind, resource_id=f"{kind.value}-1", **(fields | changes))


def plan(*found, state="running", **limits):
    return plan_reaping(found, runs={RUN: state}, now=NOW, limits=ReapLimits(**limits))


def ended(made):
    return {verdict.lease.lease_id: verdict.why for verdict in made.end}


@pytest.mark.parametrize("state", ["running", "queued"])
def test_a_live_run_keeps_what_it_has(state):
    made = plan(lease(resources=(resource(Kind.INSTANCE, state="running"),)), state=state)
    assert not made.end
    assert made.keep[0].why == f"its run is {state}"


@pytest.mark.parametrize("state", ["failed", "success", "deleted"])
def test_a_run_that_is_over_keeps_nothing(state):
    made = plan(lease(resources=(resource(),)), state=state)
    assert ended(made) == {"train-a-g1": f"its run is {state}"}
    assert made.end[0].resources


def test_a_run_that_cannot_be_read_keeps_its_capacity_and_somebody_should_look():
    made = plan(lease(), state=None)
    assert not made.end
    assert made.keep[0].suspect


@pytest.mark.parametrize("state", ["running", "failed", None])
def test_what_has_expired_ends_whatever_the_run_says(state):
    assert ended(plan(lease(expires_at=NOW - 1), state=state)) == {"train-a-g1": "expired"}


def test_an_ended_lease_does_not_expire_as_long_as_its_run_lives():
    assert not plan(lease(alive=False, open=True, expires_at=NOW - 1)).end


def test_what_an_ended_lease_left_behind_does_expire():
    assert ended(plan(lease(alive=False, expires_at=NOW - 1, resources=(resource(),)))) == {"train-a-g1": "expired"}


def test_a_shared_lease_ends_by_expiry_alone():
    shared = {"dag_id": "", "run_id": ""}
    assert not plan(lease(**shared)).end
    assert ended(plan(lease(**shared, expires_at=NOW - 1))) == {"train-a-g1": "expired"}


def test_an_older_generation_ends_beside_a_newer_one():
    made = plan(lease(1), lease(3), lease(2), lease(1, group_id="train-b"))
    assert ended(made) == {
        "train-a-g1": "generation 1 lives beside generation 3",
        "train-a-g2": "generation 2 lives beside generation 3",
    }


def test_a_newer_generation_that_is_gone_ends_no_older_one():
    assert not plan(lease(1), lease(2, alive=False, open=True)).end


def test_a_lease_that_the_ledger_wrote_off_ends():
    assert ended(plan(lease(written_off=True))) == {"train-a-g1": "the ledger has its end, and yet it lives"}
    assert not plan(lease(written_off=True, alive=False)).end


def test_an_end_without_a_charge_is_settled_quietly():
    made = plan(lease(alive=False, written_off=True, uncharged=True))
    assert ended(made) == {"train-a-g1": "its end is written and its charge is not"}
    assert not made.end[0].alarming
    assert not plan(lease(alive=False, written_off=True, uncharged=True), expired_only=True).end


def test_a_silent_agent_of_a_live_run_is_reported_and_left_to_recovery():
    made = plan(lease(silent_s=901.0))
    assert not made.end
    assert made.keep[0].suspect
    assert "silent for 901 s" in made.keep[0].why
    assert not plan(lease(silent_s=899.0)).keep[0].suspect


def test_without_airflow_or_store_only_what_has_expired_ends():
    found = (lease(1), lease(2), lease(1, group_id="train-b", written_off=True, resources=(resource(),)))
    assert not plan(*found, state="failed", expired_only=True).end
    assert ended(plan(lease(expires_at=NOW - 1), expired_only=True)) == {"train-a-g1": "expired"}


@pytest.mark.parametrize("kind", [Kind.VOLUME, Kind.SPOT_REQUEST, Kind.FLEET])
def test_what_an_instance_of_a_live_run_left_behind_ends_after_a_while(kind):
    made = plan(lease(alive=False, resources=(resource(kind, age=901.0),)))
    assert [item.kind for item in made.end[0].resources] == [kind]
    assert not made.end[0].whole


@pytest.mark.parametrize(
    "item",
    [
        resource(age=899.0),
        resource(attached_to="i-1"),
        resource(created_at=None),
        resource(Kind.SNAPSHOT),
        resource(Kind.LAUNCH_TEMPLATE),
    ],
)
def test_what_may_still_be_of_use_is_not_left_behind(item):
    assert not plan(lease(alive=False, resources=(item,))).end
    assert not plan(lease(alive=True, resources=(resource(),))).end


def test_what_names_no_lease_is_shown_and_kept():
    made = plan(LeaseFacts(lease_id="", resources=(resource(),), expires_at=NOW - 1), state="failed")
    assert not made.end
    assert made.keep[0].suspect


def test_more_than_the_cap_is_refused_as_a_whole():
    found = [lease(number, group_id=f"train-{number}") for number in range(3)]
    assert not plan(*found, state="failed", cap=3).refused
    assert plan(*found, state="failed", cap=2).refused == (
        "3 leases have no right to be there, limit 2; look before raising the limit"
    )
