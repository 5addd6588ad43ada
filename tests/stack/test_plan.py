"""``make plan``: the command line, what a person gets wrong, the kept demand."""

from __future__ import annotations

import json

import pytest
import yaml

from include.config.loader import load_workload
from include.config.settings import Settings
from include.core.contracts.plan import Plan
from include.core.json_codec import from_json, to_json
from include.core.store import ObjectStore
from stack import plan
from stack.errors import SettingsError
from stack.installation import REPO
from stack.plan_demand import DemandSource, JobRefusedError
from tests.support.offers import demand

DIGITS = REPO / "include" / "workloads" / "digits.yaml"


@pytest.fixture
def settings(tmp_path, monkeypatch):
    """An installation in a folder of its own, with the digits workload."""
    (tmp_path / "workloads").mkdir()
    (tmp_path / "workloads" / "digits.yaml").write_text(DIGITS.read_text())
    monkeypatch.setenv("PLIMSOLL_VAR", str(tmp_path / "var"))
    monkeypatch.setenv("PLIMSOLL_WORKLOADS", str(tmp_path / "workloads"))
    return Settings(store=f"file://{tmp_path}/var/store", workloads=tmp_path / "workloads")


@pytest.fixture
def jobs(monkeypatch):
    """Stands in for the processes of the jobs; notes which of them ran."""
    ran = []

    def run(self, store, kind, workload, inputs):
        ran.append(kind)
        if kind == "prepare":
            dataset = {"uri": "file:///d", "fingerprint": "f", "rows": {"train": 1}, "format": "shards"}
            return {"dataset": dataset, "found": False}
        return {"demand": to_json(demand())}

    monkeypatch.setattr(DemandSource, "_run", run)
    monkeypatch.setattr(DemandSource, "_profile", lambda s, store, w, p: run(s, store, "profile", w, {}) and demand())
    return ran


def edit(settings, **sections):
    path = settings.workloads / "digits.yaml"
    raw = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump({**raw, **{key: {**raw.get(key, {}), **value} for key, value in sections.items()}}))


def test_the_order():
    order = plan.parse(["--workload=titanic", "--engine=any", "--quota=p=96, g=64", "--json", "--fresh"])
    assert order == plan.PlanOrder(workload="titanic", engine="any", quota={"p": 96, "g": 64}, as_json=True, fresh=True)
    assert plan.parse([]) == plan.PlanOrder(workload="digits", engine=None, quota={}, as_json=False, fresh=False)


@pytest.mark.parametrize("text", ["p", "p=", "p=many", "p=-1", "nothing=4", "p=1;g=2", "p=9,p=3"])
def test_a_quota_that_is_none_is_refused(text):
    with pytest.raises(SettingsError, match="QUOTA"):
        plan.parse_quota(text)


def test_a_readable_plan_with_front_reasons_and_saving(settings, jobs, capsys):
    assert plan.main(["--workload=digits"]) == 0
    told = capsys.readouterr().out
    for part in ("Plan by cost: this-machine/local/local", "Front by", "Rejected: ", "Without sizing", "Saving: "):
        assert part in told
    assert jobs == ["prepare", "profile"]


def test_json_is_the_plan_and_nothing_else(settings, jobs, capsys):
    assert plan.main(["--json", "--engine=any"]) == 0
    told = capsys.readouterr()
    assert from_json(Plan, json.loads(told.out)).instances == 1
    assert "demand made now" in told.err


def test_the_demand_is_kept_until_data_model_training_or_a_person_say_otherwise(settings, jobs, capsys):
    def ran(*words):
        jobs.clear()
        assert plan.main(["--workload=digits", *words]) == 0
        return list(jobs)

    assert ran() == ["prepare", "profile"]
    assert ran() == []
    assert "demand found again" in capsys.readouterr().out
    edit(settings, limits={"deadline_h": 2})
    assert ran() == []  # plays no part in what the training needs
    edit(settings, training={"batch_size": 32})
    assert ran() == ["prepare", "profile"]
    assert ran("--fresh") == ["prepare", "profile"]


def test_two_workloads_that_differ_in_limits_alone_share_a_demand(settings, jobs):
    raw = yaml.safe_load(DIGITS.read_text())
    late = {"limits": {**raw.get("limits", {}), "deadline_h": 3}, "registry": {"model_name": "digits-late"}}
    other = {**raw, "name": "digits-late", **late}
    (settings.workloads / "digits-late.yaml").write_text(yaml.safe_dump(other))
    assert plan.main(["--workload=digits"]) == 0
    jobs.clear()
    assert plan.main(["--workload=digits-late"]) == 0
    assert jobs == []


def test_local_data_that_was_written_to_is_looked_at_again(settings, jobs, tmp_path, monkeypatch):
    data = tmp_path / "data" / "t.csv"
    data.parent.mkdir()
    data.write_text("a,label\n1,0\n")
    kept = settings.model_copy(update={"data_roots": (data.parent,)})
    raw = load_workload(DIGITS).model_dump(mode="json")
    raw["data"] = {"source": {"kind": "uri", "uri": str(data)}, "label": "label"}
    workload = type(load_workload(DIGITS)).model_validate(raw)
    source = DemandSource(settings=kept, say=lambda _: None)
    assert [source.of(workload).cached for _ in range(2)] == [False, True]
    data.write_text("a,label\n1,0\n2,1\n")
    assert not source.of(workload).cached
    data.unlink()
    with pytest.raises(JobRefusedError, match="no such file"):
        source.of(workload)


@pytest.mark.parametrize(
    ("sections", "told"),
    [
        ({"limits": {"deadline": "2020-01-01T00:00:00Z"}}, "the deadline has passed"),
        ({"limits": {"deadline_h": -1}}, "limits.deadline_h: found -1"),
        ({"compute": {"regions": ["eu-nroth-1"]}}, "unknown region"),
        ({"limits": {"budget_usd": 1e-9}}, "raise limits.budget_usd from 1e-09 to"),
    ],
)
def test_what_a_person_gets_wrong_is_said_in_a_line_with_status_64(settings, jobs, capsys, sections, told):
    edit(settings, **sections)
    assert plan.main(["--workload=digits"]) == 64
    assert told in capsys.readouterr().err
    # What needs no data is found before any is looked at; only the budget does.
    assert jobs == (["prepare", "profile"] if "budget_usd" in str(sections) else [])


def test_an_unknown_workload_or_engine_is_status_64(settings, jobs, capsys):
    assert plan.main(["--workload=nothing"]) == 64
    assert "There is no workload 'nothing'" in capsys.readouterr().err
    assert plan.main(["--engine=slurm"]) == 64
    assert "unknown engine" in capsys.readouterr().err
    assert jobs == []


@pytest.mark.integration
def test_the_jobs_run_as_processes_and_a_refusal_is_the_jobs_own(settings, capsys):
    edit(settings, data={"label": "nothing"})
    assert plan.main(["--workload=digits"]) == 64
    told = capsys.readouterr().err
    assert "nothing" in told
    assert "Traceback" not in told
    assert list(ObjectStore(settings.store).list("demands/")) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda data: b"",
        lambda data: data[: len(data) // 2],
        lambda data: b"[]",
        lambda data: b"{}",
        lambda data: b"[" * 100_000,
        lambda data: data.replace(b'"steps":', b'"stops":'),
        lambda data: json.dumps({**json.loads(data), "demand": {**json.loads(data)["demand"], "steps": -3}}).encode(),
    ],
)
def test_a_kept_demand_that_is_not_as_it_was_written_is_made_again(settings, jobs, capsys, change):
    store = ObjectStore(settings.store)
    assert plan.main([]) == 0
    (key,) = [key for key, _ in store.list("demands")]
    store.put(key, change(store.get(key)))
    capsys.readouterr()
    assert plan.main([]) == 0
    assert f"note: the demand kept at {store.uri(key)} is damaged and is made again" in capsys.readouterr().out
    assert plan.main([]) == 0
    assert "demand found again" in capsys.readouterr().out


def test_a_demand_of_another_workload_is_not_taken(settings, jobs, capsys):
    store = ObjectStore(settings.store)
    assert plan.main([]) == 0
    (key,) = [key for key, _ in store.list("demands")]
    other = {**json.loads(store.get(key))}
    edit(settings, training={"batch_size": 32})
    assert plan.main([]) == 0
    (mine,) = [found for found, _ in store.list("demands") if found != key]
    store.put_json(mine, other)
    capsys.readouterr()
    assert plan.main([]) == 0
    assert "is damaged and is made again" in capsys.readouterr().out


def test_a_folder_that_cannot_be_made_is_one_line(settings, jobs, monkeypatch, capsys, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PLIMSOLL_VAR", str(tmp_path / "file" / "var"))
    assert plan.main([]) == 1
    told = capsys.readouterr().err
    assert "a file cannot be read or written" in told
    assert str(tmp_path / "file") in told


def test_a_folder_of_workloads_that_is_not_there_is_named(settings, jobs, monkeypatch, capsys):
    monkeypatch.setenv("PLIMSOLL_WORKLOADS", "/nowhere/at/all")
    assert plan.main([]) == 64
    assert "There is no folder of workloads at /nowhere/at/all (PLIMSOLL_WORKLOADS)." in capsys.readouterr().err
