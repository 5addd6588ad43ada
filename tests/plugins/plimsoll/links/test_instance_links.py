"""Buttons to the rented machine: only where there is one, and nothing in them but region and id."""

from __future__ import annotations

import pytest

from plimsoll.hooks.rented import Rented
from plimsoll.links.instance_links import InstanceLink, InstanceLogLink
from plimsoll.operators.run_job import RunJobOperator
from plimsoll_plugin import PlimsollPlugin

INSTANCE = "i-0123456789abcdef0"


def operator(region: str = "us-east-1", *ids: str) -> RunJobOperator:
    found = RunJobOperator(task_id="train", kind="train", group="train")
    found.rented = Rented(lease_id="train-1-g1", region=region, ids=ids or (INSTANCE,), terms={})
    return found


def link(which: InstanceLink | InstanceLogLink, task: RunJobOperator) -> str:
    return which.get_link(task, ti_key=None)  # type: ignore[arg-type] # what they need is in the task


@pytest.mark.parametrize(
    ("region", "host"),
    [
        ("eu-north-1", "eu-north-1.console.aws.amazon.com"),
        ("cn-north-1", "cn-north-1.console.amazonaws.cn"),
        ("us-gov-west-1", "us-gov-west-1.console.amazonaws-us-gov.com"),
    ],
)
def test_the_console_of_the_region_shows_the_instance(region: str, host: str) -> None:
    page = f"https://{host}/ec2/home?region={region}"
    assert link(InstanceLink(), operator(region)) == f"{page}#InstanceDetails:instanceId={INSTANCE}"
    assert link(InstanceLogLink(), operator(region)) == f"{page}#GetSystemLog:instanceId={INSTANCE}"


def test_of_several_nodes_the_first_one_is_linked() -> None:
    assert link(InstanceLink(), operator("us-east-1", INSTANCE, "i-00000000")).endswith(INSTANCE)


@pytest.mark.parametrize(
    "task",
    [
        RunJobOperator(task_id="prepare", kind="prepare"),
        operator("us-east-1", "javascript:alert(1)"),
        operator("evil.example/us-east-1"),
    ],
)
def test_without_a_rented_machine_there_is_no_address(task: RunJobOperator) -> None:
    assert link(InstanceLink(), task) == link(InstanceLogLink(), task) == ""


def test_airflow_knows_the_links() -> None:
    """A link that the plugin does not list is not shown on the page of a stored DAG."""
    known = {type(each) for each in PlimsollPlugin.operator_extra_links}
    assert known >= {type(each) for each in operator().operator_extra_links}
