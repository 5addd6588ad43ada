"""The how-to page's policy allows what the engine does, and no more than the page says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from include.compute.ec2.permissions import PROBE_INSTANCE
from include.config.settings import REPO, Settings
from tests.support.ec2_rig import LEASE, SPOT, Rig

PAGE = (REPO / "docs" / "how-to" / "rent-on-ec2.md").read_text(encoding="utf-8")


@pytest.fixture
def statements() -> list[dict[str, Any]]:
    (block,) = re.findall(r"```json\n(.*?)```", PAGE, flags=re.DOTALL)
    return json.loads(block)["Statement"]


def actions_of(statements: list[dict[str, Any]]) -> set[str]:
    listed = (each["Action"] for each in statements)
    return {action for item in listed for action in ([item] if isinstance(item, str) else item)}


def test_every_call_of_a_lease_is_allowed(statements: list[dict[str, Any]], tmp_path: Path):
    rig = Rig(folder=tmp_path)
    subnet = rig.double.client("ec2").describe_subnets()["Subnets"][0]["SubnetId"]
    rig = Rig(folder=tmp_path, settings_over={"ec2_subnets": (subnet,)})
    rig.engine.launch(rig.request(LEASE, SPOT, storage_bytes=500 * 2**30))
    rig.engine.find()
    rig.engine.stop(LEASE, reason="test")
    made = {name for name in rig.double.counters if ":" in name}
    assert made <= actions_of(statements)


def test_nothing_is_rented_without_tags_and_nothing_else_is_ended(statements: list[dict[str, Any]]):
    by_sid = {each["Sid"]: each for each in statements}
    assert set(by_sid["RentOnlyWithTags"]["Condition"]["Null"]) == {
        "aws:RequestTag/plimsoll:installation",
        "aws:RequestTag/plimsoll:expires-at",
    }
    for each in statements:
        if "ec2:TerminateInstances" in each["Action"] and each["Resource"] == "*":
            assert each["Condition"] == {"Null": {"aws:ResourceTag/plimsoll:installation": "false"}}
    assert by_sid["AskWhetherEndingIsAllowed"]["Resource"].endswith(PROBE_INSTANCE)


def test_the_settings_it_names_exist():
    named = {name.lower() for name in re.findall(r"PLIMSOLL_([A-Z0-9_]+)", PAGE)}
    assert {name for name in named if not name.endswith("_")} <= set(Settings.model_fields)
