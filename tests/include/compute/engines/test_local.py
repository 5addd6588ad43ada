"""The local engine passes the suite of engines on files and on S3."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from include.compute.engines.local import LocalEngine
from include.config.settings import Settings
from include.core.contracts.lease import LaunchRequest, LeaseState
from include.core.errors import UserError
from include.core.process import own_identity
from include.core.store import ObjectStore
from tests.include.compute.engines.engine_suite import EngineSuite
from tests.support.lease_bench import Bench, open_local_bench


@pytest.mark.integration
class TestLocalEngine(EngineSuite):
    """The suite, with agents counted in the process table by their work folder."""

    @pytest.fixture
    def bench(self, any_store: ObjectStore, settings_for: Callable[..., Settings]) -> Iterator[Bench]:
        with open_local_bench(any_store, settings_for(any_store)) as bench:
            yield bench

    @pytest.fixture(autouse=True)
    def _work_root(self, tmp_path: Path) -> None:
        self.work_root = tmp_path / "work"

    def agents(self, bench: Bench) -> int:
        return len(agents_in(self.work_root))


def agents_in(work_root: Path) -> list[psutil.Process]:
    """Living agents whose folder lies below the work root."""
    found = []
    for process in psutil.process_iter():
        try:
            inside = Path(process.cwd()).parent == work_root and "fake_agent" in " ".join(process.cmdline())
            if inside and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


REQUEST = LaunchRequest(lease_id="train-abc-g1", group_id="train-abc", run_id="r", dag_id="d", expires_after_s=9.0)


def test_a_launch_that_died_before_it_owned_the_lease_is_ended(file_store, settings_for):
    dead = {**own_identity().to_json(), "start_ticks": 1, "is_agent": True}
    file_store.put_json("leases/train-abc-g1/launching.json", dead)
    engine = LocalEngine(file_store, settings_for(file_store))
    assert engine.describe("train-abc-g1").state is LeaseState.ENDED


def test_stop_never_ends_the_process_that_is_launching(file_store, settings_for):
    engine = LocalEngine(file_store, settings_for(file_store), stop_grace_s=0.0)
    file_store.put_json("leases/train-abc-g1/launching.json", {**own_identity().to_json(), "is_agent": False})
    assert engine.describe("train-abc-g1").state is LeaseState.STARTING
    assert engine.stop("train-abc-g1", reason="test") == "never started"


def test_an_agent_that_cannot_be_started_leaves_no_trace_of_a_launch(file_store, settings_for):
    engine = LocalEngine(file_store, settings_for(file_store), agent_command=("/no/such/program",))
    with pytest.raises(UserError, match="could not be started"):
        engine.launch(REQUEST)
    assert not file_store.exists("leases/train-abc-g1/launching.json")


def test_a_work_root_that_is_a_file_is_one_clear_error(file_store, settings_for, tmp_path):
    (tmp_path / "occupied").write_text("")
    settings = settings_for(file_store, work_root=tmp_path / "occupied")
    with pytest.raises(UserError, match=r"cannot be made.*PLIMSOLL_WORK_ROOT"):
        LocalEngine(file_store, settings).launch(REQUEST)


def test_a_full_disk_is_one_clear_error(file_store, settings_for, monkeypatch):
    full = SimpleNamespace(free=1024)
    monkeypatch.setattr("include.compute.engines.local_process.shutil.disk_usage", lambda _: full)
    with pytest.raises(UserError, match=r"disk is full.*0 MiB free"):
        LocalEngine(file_store, settings_for(file_store)).launch(REQUEST)
