"""The order as this installation can carry it out."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from include.config.run_record import RunRecord
from include.config.workload import Workload
from include.core.clock import SystemClock
from include.core.contracts.offer import PurchaseOption
from include.core.contracts.plan import Layout, RankedOffer
from include.core.errors import UserError
from include.core.ids import run_prefix
from include.core.json_codec import to_json
from include.ledger.budget import raise_budget
from plimsoll.hooks.capacity import control_capacity, run_capacity
from plimsoll.hooks.installation import Installation, engines_of
from plimsoll.hooks.plan_order import ensure_spot_prices, planned_order
from tests.support.aws_answers import NOW, FakeClients, good_answers
from tests.support.jobs import workload
from tests.support.offers import offer
from tests.support.plans import plan
from tests.support.task_context import DAG_ID, RUN_ID, write_run


def on_ec2(place: Installation, **fields: Any) -> Installation:
    settings = place.settings.model_copy(update={"engine": "ec2", "ec2_worker_image": "worker:1", **fields})
    return replace(place, settings=settings)


def record(place: Installation, **sections: Any) -> RunRecord:
    return write_run(place, workload("digits", **sections))


def test_ec2_on_an_installation_without_it_is_one_clear_error(place: Installation) -> None:
    with pytest.raises(UserError, match=r"does not have \| where: compute.engine .*PLIMSOLL_ENGINE=ec2"):
        planned_order(record(place, compute={"engine": "ec2"}), place)


def test_the_region_is_the_installations(place: Installation) -> None:
    found = planned_order(record(place, compute={"engine": None}), on_ec2(place))
    assert (found.compute.engine, found.compute.regions) == ("ec2", ("us-east-1",))
    both = planned_order(record(place, compute={"engine": None, "regions": ["us-east-1", "eu-north-1"]}), on_ec2(place))
    assert both.compute.regions == ("us-east-1",)
    with pytest.raises(UserError, match="does not rent in"):
        planned_order(record(place, compute={"engine": None, "regions": ["eu-north-1"]}), on_ec2(place))


def test_a_raised_budget_is_planned_with(place: Installation) -> None:
    run = record(place, limits={"budget_usd": 5})
    raise_budget(place.ledger, dag_id=DAG_ID, run_id=RUN_ID, ordered=Decimal(5), usd=Decimal(9))
    assert planned_order(run, place).limits.budget_usd == 9
    limits = run_capacity(run, "work", place).limits
    assert limits is not None
    assert limits.budget_usd == Decimal(9)


def test_only_an_installation_that_rents_has_the_engine(place: Installation) -> None:
    assert list(engines_of(place.store, place.settings)) == ["local"]
    assert list(engines_of(place.store, on_ec2(place).settings)) == ["local", "ec2"]


def spot_plan(place: Installation) -> None:
    spot = offer(instance_type="g6.xlarge", purchase=PurchaseOption.SPOT, usd="0.30")
    twin = offer(instance_type="g6.xlarge", usd="0.80")
    other = RankedOffer(offer=twin, prediction=None, rejected=None, layout=Layout(precision="bf16", micro_batch=32))
    found = plan(other, chosen=spot)
    place.store.put_json(f"{run_prefix(workload=DAG_ID, run_id=RUN_ID)}/plan.json", to_json(found))
    demand = {"checkpoint_bytes": 10**9, "disk_bytes": 5 * 10**9}
    place.store.put_json(f"{run_prefix(workload=DAG_ID, run_id=RUN_ID)}/demand.json", demand)


def test_a_planned_training_is_launched_where_it_was_planned(place: Installation) -> None:
    rented = on_ec2(place, cost_centre="cc-1")
    run = record(rented, limits={"deadline_h": 5, "budget_usd": 20})
    spot_plan(rented)
    capacity = run_capacity(run, "train", rented)
    assert [c.purchase for c in capacity.candidates] == ["spot", "on-demand"]
    assert capacity.terms is not None
    assert capacity.terms.checkpoint_bytes == 10**9
    request = capacity.launch("train-x-g1", 1)
    assert (request.engine, request.owner, request.cost_centre) == ("ec2", run.workload.owner, "cc-1")
    assert request.storage_bytes == 5 * 10**9
    limits = capacity.limits
    assert limits is not None
    assert (limits.team, limits.gpus, limits.usd_per_h) == (run.workload.owner, 1, Decimal("0.80"))


def test_the_control_lease_stays_on_this_machine(place: Installation) -> None:
    capacity = control_capacity(on_ec2(place))
    assert capacity.candidates == ()
    assert capacity.launch("control-x-g1", 1).engine == "local"


def test_the_work_lease_is_rented_where_the_settings_say_so(place: Installation, digits: Workload) -> None:
    run = write_run(place, digits)
    assert run_capacity(run, "work", on_ec2(place)).candidates == ()
    rented = run_capacity(run, "work", on_ec2(place, ec2_work_type="m7i.large"))
    assert [c.purchase for c in rented.candidates] == ["spot", "on-demand"]
    assert rented.launch("work-x-g1", 1).engine == "ec2"
    with pytest.raises(UserError, match="PLIMSOLL_EC2_WORK_TYPE"):
        run_capacity(run, "work", on_ec2(place, ec2_work_type="m0.none"))


def test_spot_prices_are_asked_for_once_and_their_absence_is_only_told(place: Installation) -> None:
    def answers() -> FakeClients:
        return FakeClients(*good_answers())

    assert ensure_spot_prices(place, now=NOW, clients=answers) == ""
    rented = on_ec2(place)
    assert ensure_spot_prices(rented, now=NOW, clients=answers) == ""

    def nobody() -> Any:
        raise RuntimeError("no credentials")

    assert ensure_spot_prices(rented, now=NOW, clients=nobody) == ""
    later = SystemClock().now().replace(year=NOW.year + 1)
    assert "no credentials" in ensure_spot_prices(rented, now=later, clients=nobody)


def test_what_the_teams_quota_can_never_pay_is_left_out(place: Installation, tmp_path: Path) -> None:
    quotas = tmp_path / "quotas.yaml"
    quotas.write_text("teams: {ml-platform: {usd_per_h: 0.5}}")
    rented = on_ec2(place, quota_file=str(quotas))
    run = record(rented)
    spot_plan(rented)
    capacity = run_capacity(run, "train", rented)
    assert [c.purchase for c in capacity.candidates] == ["spot"]
    assert capacity.limits is not None
    assert capacity.limits.usd_per_h == Decimal("0.30")
