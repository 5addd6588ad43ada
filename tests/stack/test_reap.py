"""``make reap`` and ``make cancel`` as programs: settings, exit status, and what Airflow's API says of runs."""

import json
import logging

import pytest

from include.compute.damage import UnreadableLeasesError
from include.compute.ec2.tags import installation_of
from include.compute.engines.local import LocalEngine
from include.compute.engines.router import EngineRouter
from include.core.contracts.lease import Lease, LeaseState
from include.core.ids import group_id, run_prefix
from include.ledger.ledger import Ledger
from include.ledger.migrate import migrate
from stack import cancel, reap
from stack.airflow_api import AirflowApi, ApiError
from stack.aws_clients import StackClients
from stack.ports import Ports
from stack.rented import find_rented
from stack.settings_mistakes import read_settings
from tests.support.ec2_rig import AMI, DoubleClients, Rig

RUN = "/api/v2/dags/d/dagRuns/r1"
GROUP = group_id(dag_id="d", run_id="r1", group="train")


@pytest.fixture
def var(tmp_path, monkeypatch):
    for name in ("STORE", "LEDGER", "WORK_ROOT", "ENGINE"):
        monkeypatch.delenv(f"PLIMSOLL_{name}", raising=False)
    monkeypatch.setenv("PLIMSOLL_VAR", str(tmp_path / "var"))
    (tmp_path / "var").mkdir()
    return tmp_path / "var"


@pytest.fixture
def ledger(var):
    url = f"sqlite:///{var}/ledger.db"
    migrate(url)
    return Ledger(url)


@pytest.fixture
def airflow(server):
    return AirflowApi(url=server.url, user="admin", password="p")


@pytest.fixture
def alive(monkeypatch):
    """``alive(lease_id)``: the engine says that it lives, until it is stopped."""
    found = {}

    def stop(self, lease_id, *, reason):
        found.pop(lease_id, None)
        return reason

    def describe(self, lease_id):
        ended = Lease(lease_id=lease_id, group_id=GROUP, state=LeaseState.ENDED)
        return found.get(lease_id, ended)

    monkeypatch.setattr(LocalEngine, "find", lambda self, **_: tuple(found.values()))
    monkeypatch.setattr(LocalEngine, "describe", describe)
    monkeypatch.setattr(LocalEngine, "stop", stop)

    def add(lease_id, **changes):
        fields = {"group_id": GROUP, "state": LeaseState.RUNNING, "dag_id": "d", "run_id": "r1"}
        found[lease_id] = Lease(lease_id=lease_id, **(fields | changes))
        return found

    return add


def rented_on_ec2(ledger):
    """A lease that ledger and store have, launched by a shell with other settings."""
    lease = ledger.intent(group_id=GROUP, dag_id="d", run_id="r1").lease_id
    ledger.launched(group_id=GROUP, lease_id=lease, details={"engine": "ec2"})
    spec = {"lease_id": lease, "group_id": GROUP, "run_id": "r1", "dag_id": "d", "expires_after_s": 60, "engine": "ec2"}
    find_rented(read_settings()).holdings.store.put_json(f"leases/{lease}/spec.json", spec)
    return lease


class GoneStore:
    """EC2 as the installation sees it whose store became a file."""

    def __init__(self, rig, store):
        self.rig, self.store = rig, store

    def expired(self):
        tags = {"installation": installation_of(self.store), "lease": "train-a-g1", "expires-at": "1", "dag": "d"}
        listed = [{"Key": f"plimsoll:{key}", "Value": value} for key, value in {**tags, "run": "r1"}.items()]
        self.rig.double.client("ec2").run_instances(
            ImageId=AMI,
            InstanceType="g5.xlarge",
            MinCount=1,
            MaxCount=1,
            TagSpecifications=[{"ResourceType": "instance", "Tags": listed}],
        )

    def living(self):
        return self.rig.living()


@pytest.fixture
def on_double(var, monkeypatch, tmp_path):
    """``PLIMSOLL_ENGINE=ec2`` on a double, a file in the place of the store."""
    rig = Rig(folder=tmp_path)
    clients = DoubleClients(rig.double)
    monkeypatch.setenv("PLIMSOLL_ENGINE", "ec2")
    monkeypatch.setattr("stack.rented.StackClients", lambda *_: clients)
    (var / "store").write_text("x")
    return GoneStore(rig, f"file://{var}/store")


class TestReap:
    def test_without_a_stack_only_what_has_expired_ends(self, ledger, alive, capsys, caplog):
        caplog.set_level(logging.INFO)
        lease = ledger.intent(group_id=GROUP, dag_id="d", run_id="r1").lease_id
        alive(lease)
        assert reap.main([]) == 0
        assert len(ledger.open_leases()) == 1
        alive(lease, expires_at=1.0)
        assert reap.main(["--json"]) == 0
        assert ledger.open_leases() == ()
        told = capsys.readouterr()
        assert json.loads(told.out[told.out.index("{") :])["ended"] == {lease: "expired"}
        assert "only what has expired is ended" in caplog.text

    def test_a_dry_run_ends_nothing(self, ledger, alive, capsys):
        lease = ledger.intent(group_id=GROUP, dag_id="d", run_id="r1").lease_id
        found = alive(lease, expires_at=1.0)
        assert reap.main(["--dry-run"]) == 0
        assert list(found) == [lease]
        assert "would end" in capsys.readouterr().out

    def test_more_than_the_cap_is_a_failure(self, ledger, alive, capsys):
        found = alive("train-a-g1", expires_at=1.0, group_id="train-a")
        alive("train-b-g1", expires_at=1.0, group_id="train-b")
        assert reap.main(["--cap", "1"]) == 1
        assert "limit 1" in capsys.readouterr().out
        assert len(found) == 2

    def test_a_setting_that_cannot_be_used_is_told(self, var, monkeypatch, capsys):
        monkeypatch.setenv("PLIMSOLL_ENGINE", "moon")
        assert reap.main([]) == 64
        assert "PLIMSOLL_ENGINE" in capsys.readouterr().err

    def test_a_ledger_that_cannot_be_used_does_not_hide_what_is_rented(self, var, monkeypatch, alive, capsys):
        monkeypatch.setenv("PLIMSOLL_LEDGER", f"sqlite:///{var}")
        found = alive("train-a-g1", expires_at=1.0)
        assert reap.main([]) == 1
        assert "the ledger cannot be" in capsys.readouterr().out
        assert not found

    @pytest.mark.parametrize("cap", ["0", "-3", "abc", "", "1001", "²", "1e2", "9" * 5000])
    def test_a_cap_that_is_none_is_one_line(self, var, cap, capsys):
        assert reap.main([f"--cap={cap}"]) == 64
        (line,) = capsys.readouterr().err.splitlines()
        assert "where: CAP | found: " in line
        assert "allowed: 1 to 1000" in line

    def test_it_says_where_it_has_looked(self, var, capsys, caplog):
        caplog.set_level(logging.INFO)
        assert reap.main([]) == 0
        assert f"looked at: store file://{var}/store; ledger sqlite:///{var}/ledger.db" in caplog.text
        assert "EC2 was not asked: PLIMSOLL_ENGINE=local" in caplog.text

    def test_a_lease_on_ec2_is_told_where_ec2_is_not_asked(self, ledger, capsys):
        rented_on_ec2(ledger)
        assert reap.main([]) == 1
        assert "set PLIMSOLL_ENGINE=ec2" in capsys.readouterr().out

    def test_a_file_in_the_place_of_the_store_hides_nothing_on_ec2(self, var, on_double, capsys):
        rig = on_double
        rig.expired()
        assert reap.main([]) == 1
        assert rig.living() == []
        assert "the store cannot be read" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("answer", "state"),
        [
            ((200, {"state": "running"}), "running"),
            ((404, {"detail": "no"}), "deleted"),
            ((500, {"detail": "no"}), None),
        ],
    )
    def test_what_airflow_says_of_a_run(self, server, airflow, answer, state):
        server.answers["GET", RUN] = answer
        assert reap.run_state(airflow, "d", "r1") == state


class TestCancel:
    def test_a_run_ends_with_airflow_dead(self, ledger, alive, capsys):
        lease = ledger.intent(group_id=GROUP, dag_id="d", run_id="r1").lease_id
        alive(lease)
        assert cancel.main(["--run", "d/r1"]) == 0
        assert ledger.open_leases() == ()
        assert ledger.is_closed(GROUP)
        out = capsys.readouterr().out
        assert "Airflow does not run" in out
        assert out.endswith("nothing of the run is left\n")

    def test_what_does_not_end_is_a_failure(self, ledger, alive, monkeypatch, capsys):
        alive(f"{GROUP}-g1")
        monkeypatch.setattr(LocalEngine, "stop", lambda self, lease_id, *, reason: "hangs")
        assert cancel.main(["--run", "d/r1", "--within", "0.1", "--json"]) == 1
        report = json.loads(capsys.readouterr().out)
        assert report["left"] == [f"lease {GROUP}-g1 (running)"]
        assert report["proved"] is False

    @pytest.mark.parametrize("run", ["d/r2", "../../etc/passwd", "d/../r1", "\\/x", "D/r1"])
    def test_a_run_that_nobody_knows_is_an_error_and_touches_nothing(self, var, ledger, alive, run, capsys):
        found = alive(ledger.intent(group_id=GROUP, dag_id="d", run_id="r1").lease_id)
        before = ledger.events()
        assert cancel.main(["--run", run]) == 64
        (line,) = capsys.readouterr().err.splitlines()
        assert "nobody knows such a run" in line
        assert f"store file://{var}/store; ledger sqlite:///{var}/ledger.db; EC2 was not asked" in line
        assert "do: " in line
        assert found
        assert ledger.events() == before

    def test_a_run_of_the_store_alone_is_known(self, ledger, capsys):
        store = find_rented(read_settings()).holdings.store
        store.put_json(f"{run_prefix(workload='d', run_id='r1')}/run.json", {})
        assert cancel.main(["--run", "d/r1"]) == 0

    def test_a_run_of_airflow_alone_is_known(self, server, airflow):
        server.answers["GET", RUN] = (200, {"state": "queued"})
        assert cancel.in_airflow(airflow, "d", "r1") is True
        server.answers["GET", RUN] = (404, {})
        assert cancel.in_airflow(airflow, "d", "r1") is False
        server.answers["GET", RUN] = (500, {})
        assert cancel.in_airflow(airflow, "d", "r1") is None
        assert cancel.in_airflow(None, "d", "r1") is False

    def test_the_proof_says_what_it_covers(self, var, ledger, capsys):
        ledger.intent(group_id=GROUP, dag_id="d", run_id="r1")
        assert cancel.main(["--run", "d/r1"]) == 0
        looked = capsys.readouterr().out.splitlines()[-2]
        assert looked.startswith(f"looked at: store file://{var}/store; ledger ")
        assert "EC2 was not asked: PLIMSOLL_ENGINE=local" in looked

    def test_a_lease_on_ec2_is_told_where_ec2_is_not_asked(self, ledger, capsys):
        lease = rented_on_ec2(ledger)
        assert cancel.main(["--run", "d/r1", "--within", "0.1"]) == 1
        (problem,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("problem: ")]
        assert f"lease {lease} is on the engine ec2" in problem
        assert "set PLIMSOLL_ENGINE=ec2" in problem

    def test_a_damaged_lease_of_another_run_is_no_matter_of_this_one(self, ledger, alive, capsys):
        alive(ledger.intent(group_id=GROUP, dag_id="d", run_id="r1").lease_id)
        damaged = UnreadableLeasesError({"train-xyz-g2": "lease train-xyz-g2 cannot be read"}, ())
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(EngineRouter, "find", lambda self, **_: (_ for _ in ()).throw(damaged))
            assert cancel.main(["--run", "d/r1"]) == 0

    def test_a_damaged_lease_of_the_run_is_named(self, ledger, capsys):
        lease = ledger.intent(group_id=GROUP, dag_id="d", run_id="r1").lease_id
        find_rented(read_settings()).holdings.store.put(f"leases/{lease}/spec.json", b"{")
        assert cancel.main(["--run", "d/r1", "--within", "0.1"]) == 1
        assert f"problem: lease {lease} cannot be read: leases/{lease}/spec.json" in capsys.readouterr().out

    def test_a_file_in_the_place_of_the_store_is_told_and_what_the_run_has_on_ec2_ends(self, on_double, capsys):
        on_double.expired()
        assert cancel.main(["--run", "d/r1", "--within", "0.1"]) == 1
        assert "problem: the store cannot be read" in capsys.readouterr().out
        assert on_double.living() == []

    @pytest.mark.parametrize("text", ["", "digits", "/r1", "digits/"])
    def test_a_run_that_is_none_is_told(self, var, text, capsys):
        assert cancel.main(["--run", text]) == 64
        assert "RUN names no run" in capsys.readouterr().err

    def test_run_ids_may_hold_slashes(self):
        assert cancel.run_named("d/a/b") == ("d", "a/b")

    def test_a_live_run_is_marked_failed(self, server, airflow):
        server.answers["GET", RUN] = (200, {"state": "running"})
        server.answers["PATCH", RUN] = (200, {"state": "failed"})
        assert cancel.mark_failed(airflow, "d", "r1") == "marked failed"
        assert server.requests[-1][:3] == ("PATCH", RUN, {"state": "failed"})

    @pytest.mark.parametrize(
        ("answer", "told"),
        [((200, {"state": "success"}), "it was success already"), ((404, {}), "Airflow has no such run")],
    )
    def test_a_run_that_is_over_stays_as_it_is(self, server, airflow, answer, told):
        server.answers["GET", RUN] = answer
        assert cancel.mark_failed(airflow, "d", "r1") == told
        assert all(method != "PATCH" for method, *_ in server.requests)

    def test_an_airflow_that_refuses_is_an_error_and_a_dead_one_is_not(self, server, airflow):
        server.answers["GET", RUN] = (200, {"state": "running"})
        server.answers["PATCH", RUN] = (403, {"detail": "no"})
        with pytest.raises(ApiError, match="403"):
            cancel.mark_failed(airflow, "d", "r1")
        dead = AirflowApi(url="http://127.0.0.1:9", user="admin", password="p")
        assert cancel.mark_failed(dead, "d", "r1").startswith("Airflow does not run")


def test_ec2_is_asked_where_the_installation_rents_there(var, monkeypatch):
    assert find_rented(read_settings()).holdings.ec2 is None
    monkeypatch.setenv("PLIMSOLL_ENGINE", "ec2")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    assert find_rented(read_settings()).holdings.ec2.meta.region_name == "us-east-1"


def test_clients_of_a_stack_with_a_double_talk_to_nobody_else():
    clients = StackClients("us-east-1", Ports(airflow=1, mlflow=2, serving=3, ec2=4))
    for client in (clients.launching(), clients.reading(), clients.quotas()):
        assert client.meta.endpoint_url == "http://127.0.0.1:4"
    assert clients.launching().meta.config.retries["total_max_attempts"] == 1
