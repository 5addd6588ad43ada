"""Leases that are left: the engine's word and the process table, each by itself."""

import subprocess
import sys

import pytest

from include.compute.engines.local import LocalEngine
from include.core.contracts.lease import Lease, LeaseState
from include.core.store import ObjectStore
from stack import leases_left


@pytest.fixture
def store(tmp_path):
    return ObjectStore(f"file://{tmp_path}/store")


def test_an_installation_without_leases_has_none_left(store, settings_for):
    assert leases_left.leases_left(store, settings_for(store)) == set()


def test_the_engine_counts_leases_of_runs_that_have_not_ended(store, settings_for, monkeypatch):
    leases = tuple(
        Lease(lease_id=name, group_id="g", state=state)
        for name, state in (
            ("train-1-g1", LeaseState.RUNNING),
            ("train-1-g0", LeaseState.ENDED),
            ("work-2-g1", LeaseState.STARTING),
            ("control-3-g1", LeaseState.RUNNING),
        )
    )
    monkeypatch.setattr(LocalEngine, "find", lambda self, **_: leases)
    assert leases_left.leases_left(store, settings_for(store)) == {"train-1-g1", "work-2-g1"}


def agent(lease, store_url):
    code = "import time; print('up', flush=True); time.sleep(60)"
    # The words after -c stand in the process table as those of an agent do.
    command = [sys.executable, "-c", code, "-m", "include.compute.agent", lease]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={"PLIMSOLL_STORE": store_url})
    process.stdout.readline()
    return process


def test_the_process_table_counts_agents_of_this_store_alone(store, settings_for):
    started = [
        agent("train-a-g1", store.url),
        agent("work-b-g2", "file:///another/store"),
        agent("control-c-g1", store.url),
    ]
    try:
        assert leases_left.by_process_table(settings_for(store)) == {"train-a-g1"}
    finally:
        for process in started:
            process.kill()
            process.wait()
            process.stdout.close()
    assert leases_left.by_process_table(settings_for(store)) == set()
