"""The list of live leases: only those of runs decide on the exit status."""

import logging

import pytest

from include.compute import stop_all
from include.core.contracts.lease import Lease, LeaseState

CONTROL = Lease(lease_id="control-1-g1", group_id="control-1", state=LeaseState.RUNNING)
OF_A_RUN = Lease(lease_id="train-1-g1", group_id="train-1", state=LeaseState.RUNNING, run_id="r", dag_id="digits")


@pytest.mark.parametrize(
    ("leases", "status", "last"),
    [
        ((), 0, "0 alive: 0 of runs, 0 shared by all runs"),
        ((CONTROL,), 0, "1 alive: 0 of runs, 1 shared by all runs"),
        ((CONTROL, OF_A_RUN), 1, "2 alive: 1 of runs, 1 shared by all runs"),
    ],
)
def test_the_shared_lease_is_listed_and_does_not_count(tmp_path, monkeypatch, caplog, leases, status, last):
    monkeypatch.setenv("PLIMSOLL_STORE", f"file://{tmp_path}/store")
    monkeypatch.setattr(stop_all.LocalEngine, "find", lambda self: leases)
    caplog.set_level(logging.INFO)
    assert stop_all.main(["--dry-run"]) == status
    assert caplog.messages[-1] == last
    assert len(caplog.messages) == len(leases) + 1
