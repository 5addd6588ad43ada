"""Contracts of every DAG: imports, weight, ownership, retries, pools, teardown."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.airflow_home import REPO, migrate

JOB_TYPES = ("RunJobOperator", "ResumableTrainingOperator", "CarbonLogOperator")
OTHER = "name: task_ids\nmodel: {factory: cnn}\ndata: {source: {kind: digits}, label: digit}\n"
BROKEN = "name: broken\ndata: {source: {kind: digits}}\n"


def parse(environment: dict[str, str]) -> dict:
    answer = subprocess.run(
        [sys.executable, "-m", "tests.support.parse_dags", str(REPO / "dags")],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
        timeout=180,
    )
    return json.loads(answer.stdout.strip().splitlines()[-1])


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return migrate(tmp_path_factory.mktemp("airflow"))


@pytest.fixture(scope="module")
def parsed(home: dict[str, str]) -> dict:
    return parse(home)


def test_all_dags_import(parsed: dict) -> None:
    assert parsed["import_errors"] == {}
    assert set(parsed["dags"]) == {"digits", "titanic", "lease_reaper", "price_refresh", "storage_lifecycle"}


def test_no_heavy_module_is_loaded(parsed: dict) -> None:
    assert parsed["heavy"] == []


def test_every_dag_says_what_it_is(parsed: dict) -> None:
    for dag_id, dag in parsed["dags"].items():
        assert dag["doc"], dag_id
        assert "plimsoll" in dag["tags"], dag_id
        assert dag["catchup"] is False, dag_id
        assert dag["max_active_runs"] == 1, dag_id
        assert dag["dagrun_timeout"] is None, f"{dag_id}: a run time-out skips the teardown"
        for task_id, task in dag["tasks"].items():
            assert task["owner"] not in ("", "airflow"), (dag_id, task_id)
            assert task["policy"], (dag_id, task_id)


@pytest.mark.parametrize("dag_id", ["digits", "titanic"])
def test_capacity_has_setup_teardown_and_a_seal(parsed: dict, dag_id: str) -> None:
    tasks = parsed["dags"][dag_id]["tasks"]
    for group in ("training", "compression"):
        assert tasks[f"{group}.provision"]["is_setup"]
        assert tasks[f"{group}.provision"]["retries"] >= 2
        assert not tasks[f"{group}.wait_ready"]["is_setup"]
        assert tasks[f"{group}.release"]["is_teardown"]
        assert f"{group}.provision" in tasks[f"{group}.release"]["upstream"]
    seal = tasks["seal"]
    assert seal["is_teardown"]
    assert seal["fails_run"]
    assert {"training.release", "compression.release"} <= set(seal["upstream"])


def test_nothing_rents_before_it_is_approved(parsed: dict) -> None:
    tasks = parsed["dags"]["digits"]["tasks"]
    assert "approve_spending" in tasks["training.provision"]["upstream"]


def test_heavy_work_waits_in_a_pool(parsed: dict) -> None:
    tasks = parsed["dags"]["digits"]["tasks"]
    jobs = {name: task for name, task in tasks.items() if task["type"] in JOB_TYPES}
    assert jobs
    assert all(task["pool"] != "default_pool" for task in jobs.values())
    assert tasks["training.train"]["pool"] == "gpu"


def test_form_fields_are_described(parsed: dict) -> None:
    form = parsed["dags"]["digits"]["params"]
    assert {"objective", "purchase", "deadline_h", "budget_usd", "recipes", "interruption_drill", "deploy"} <= set(form)
    assert {"plan_only", "data_uri", "label", "model_preset"} <= set(form)
    for name, schema in form.items():
        assert schema.get("title"), name
        assert schema.get("type"), name


def test_a_broken_workload_file_is_one_error_and_hides_nothing(home: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "workloads"
    shutil.copytree(REPO / "include" / "workloads", folder)
    (folder / "broken.yaml").write_text(BROKEN)
    # Valid, and named like a name in the module that makes the DAGs.
    (folder / "aaa.yaml").write_text(OTHER)
    found = parse({**home, "PLIMSOLL_WORKLOADS": str(folder)})
    assert list(found["import_errors"]) == ["workload_errors.py"]
    assert "data.label: missing" in found["import_errors"]["workload_errors.py"]
    assert {"digits", "titanic", "task_ids"} <= set(found["dags"])
