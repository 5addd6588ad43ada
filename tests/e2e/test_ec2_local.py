"""``make run ENGINE=ec2-local``: the whole chain on instances of the EC2 double, which takes two of them away."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from stack.airflow_api import request
from tests.e2e.conftest import made_run
from tests.support.real_stack import RealStack, real_stack

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def rented(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealStack]:
    """A stack that rents from a double."""
    with real_stack(tmp_path_factory.mktemp("ec2-local"), drill_dags=False, ec2_double=True) as running:
        yield running


def asked(stack: RealStack, route: str) -> Any:
    """An answer of the double's own routes."""
    status, text = request("GET", f"{stack.stack.ports.url('ec2')}/_double/{route}")
    assert status == 200, text
    return json.loads(text)


@pytest.mark.parametrize("workload", ["digits", "titanic"])
def test_a_run_survives_two_interruptions_and_leaves_nothing_that_costs(rented: RealStack, workload: str) -> None:
    found = made_run(rented, workload, drill=True).summary
    assert found.problems == ()
    assert found.success
    assert (found.interruptions, found.steps_lost) == (2, 0)
    assert [attempt.exit_code for attempt in found.attempts] == [75, 75, 0]
    assert found.endpoint_agrees is True
    assert found.leases_left == 0

    mine = [each for each in asked(rented, "instances") if each["tags"]["plimsoll:dag"] == workload]
    trained = {each["tags"]["plimsoll:lease"] for each in mine if each["tags"]["plimsoll:lease"].startswith("train-")}
    assert {each["state"] for each in mine} <= {"shutting-down", "terminated"}
    assert len(trained) == 3
    assert len(mine) == 4, "one instance for each generation of the training, one for the work after it"


def test_the_ledger_says_what_the_double_bills(rented: RealStack) -> None:
    """To the cent: the ledger begins at EC2's launch time, a second before the double's instances run."""
    bill, ledger = asked(rented, "bill")["instances"], rented.ledger()
    billed: dict[str, Decimal] = {}
    for line in bill:
        assert line["usd"] is not None
        billed[line["lease"]] = billed.get(line["lease"], Decimal(0)) + Decimal(line["usd"])
    assert len(billed) == 8
    for lease, usd in billed.items():
        record = ledger.lease_record(lease)
        assert record is not None
        charges = ledger.charges(dag_id=record.dag_id, run_id=record.run_id)
        (charged,) = [charge.effective_cost_usd for charge in charges if charge.lease_id == lease]
        assert charged is not None
        assert abs(charged - usd) < Decimal("0.005"), lease
