"""Pools: missing ones are made, a person's own change stays."""

import pytest

from stack import pools
from stack.airflow_api import AirflowApi


@pytest.fixture
def api(server):
    return AirflowApi(url=server.url, user="admin", password="x")


def test_missing_pools_are_made_with_deferred_tasks_counted(server, api, monkeypatch):
    monkeypatch.setattr(pools, "accelerators", lambda: 4)
    server.answers[("GET", "/api/v2/pools/jobs")] = (200, {"name": "jobs", "slots": 9})
    server.answers[("POST", "/api/v2/pools")] = (201, {})
    pools.ensure(api)
    made = {entry[2]["name"]: entry[2] for entry in server.requests if entry[:2] == ("POST", "/api/v2/pools")}
    assert {name: body["slots"] for name, body in made.items()} == {"gpu": 4, "measure": 1}
    assert all(body["include_deferred"] is True for body in made.values())


def test_the_drivers_tool_counts_the_accelerators(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert pools.accelerators() == 0
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'GPU 0: A (UUID: x)'\necho '  MIG 1g'\necho 'GPU 1: A (UUID: y)'\n")
    tool.chmod(0o755)
    assert pools.accelerators() == 2


def test_a_machine_without_accelerators_has_one_slot(monkeypatch):
    monkeypatch.setattr(pools, "accelerators", lambda: 0)
    assert pools.wanted_pools()["gpu"][0] == 1
