"""The DAG as it is on disk now, and which import errors are fatal."""

import shutil
from datetime import UTC, datetime, timedelta

import pytest

from stack import dag_ready
from stack.airflow_api import AirflowApi
from stack.errors import StackError
from stack.installation import REPO

NOW = datetime.now(UTC)
ERRORS = "/api/v2/importErrors?limit=100&offset=0"


@pytest.fixture
def api(server):
    server.answers[("GET", ERRORS)] = (200, {"import_errors": [], "total_entries": 0})
    server.answers[("GET", "/api/v2/plugins/importErrors")] = (200, {"import_errors": [], "total_entries": 0})
    return AirflowApi(url=server.url, user="admin", password="x")


def import_error(server, filename, *, at=NOW, trace="Traceback\nValueError: broken"):
    entry = {"filename": filename, "timestamp": at.isoformat(), "stack_trace": trace}
    server.answers[("GET", ERRORS)] = (200, {"import_errors": [entry], "total_entries": 1})


@pytest.fixture
def workloads(tmp_path):
    folder = tmp_path / "workloads"
    folder.mkdir()
    shutil.copy(REPO / "include/workloads/digits.yaml", folder)
    return folder


def test_a_broken_file_of_somebody_else_is_a_warning(workloads):
    (workloads / "other.yaml").write_text("name: other\n")
    chosen, warnings = dag_ready.choose_workload(workloads, "digits")
    assert chosen.name == "digits"
    assert len(warnings) == 1
    assert "other.yaml" in warnings[0]


def test_a_broken_file_of_the_chosen_workload_is_fatal_with_its_mistakes(workloads):
    (workloads / "other.yaml").write_text("name: other\n")
    with pytest.raises(StackError, match=r"(?s)other\.yaml.*data: missing"):
        dag_ready.choose_workload(workloads, "other")


def test_an_unknown_workload_gets_the_list_of_those_there_are(workloads):
    with pytest.raises(StackError, match=r"no workload 'nope'.*Valid ones: digits"):
        dag_ready.choose_workload(workloads, "nope")


def test_code_that_cannot_be_imported_is_fatal(server, api):
    import_error(server, "lifecycle.py")
    with pytest.raises(StackError, match=r"(?s)lifecycle\.py cannot be imported.*ValueError: broken"):
        dag_ready.refuse_broken_code(api)


def test_the_error_about_workload_files_is_not(server, api):
    import_error(server, "workload_errors.py")
    dag_ready.refuse_broken_code(api)


def test_an_error_from_before_the_file_was_read_again_is_not(server, api):
    import_error(server, "lifecycle.py", at=NOW - timedelta(minutes=1))
    dag_ready.refuse_broken_code(api, since=NOW)
    with pytest.raises(StackError):
        dag_ready.refuse_broken_code(api)


def test_a_plugin_that_cannot_be_imported_is_fatal(server, api):
    broken = {"source": "plimsoll_plugin.py", "error": "Traceback\nImportError: no x"}
    server.answers[("GET", "/api/v2/plugins/importErrors")] = (200, {"import_errors": [broken], "total_entries": 1})
    with pytest.raises(StackError, match=r"plimsoll_plugin\.py.*ImportError: no x"):
        dag_ready.refuse_broken_code(api)


def dag(at, **changes):
    return {"is_stale": False, "last_parsed_time": at.isoformat(), "file_token": "tok", **changes}


def test_a_dag_of_an_earlier_start_is_asked_for_again_and_waited_for(server, api, monkeypatch):
    monkeypatch.setattr(dag_ready, "_PAUSE_S", 0.0)
    old, new = dag(NOW - timedelta(minutes=1)), dag(NOW + timedelta(seconds=1))
    server.answers[("GET", "/api/v2/dags/digits")] = [
        (404, {}),
        (200, old),
        (200, {**new, "is_stale": True}),
        (200, new),
    ]
    server.answers[("PUT", "/api/v2/parseDagFile/tok")] = (201, {})
    assert dag_ready.wait_for_dag(api, "digits", since=NOW, timeout_s=10) == new
    assert sum(method == "PUT" for method, *_ in server.requests) == 1


def test_a_dag_that_does_not_come_is_an_error(api):
    with pytest.raises(StackError, match="did not show the DAG 'digits'"):
        dag_ready.wait_for_dag(api, "digits", since=NOW, timeout_s=0.1)


def test_broken_code_ends_the_wait_for_the_dag(server, api):
    import_error(server, "lifecycle.py")
    with pytest.raises(StackError, match="cannot be imported"):
        dag_ready.wait_for_dag(api, "digits", since=NOW, timeout_s=60)


def test_all_files_are_waited_for(server, api, tmp_path, monkeypatch):
    monkeypatch.setattr(dag_ready, "_PAUSE_S", 0.0)
    for name in ("a.py", "b.py", "workload_errors.py"):
        (tmp_path / name).touch()
    import_error(server, "b.py")
    path = "/api/v2/dags?limit=100&offset=0"
    entry = {"fileloc": "/x/dags/a.py", "last_parsed_time": NOW.isoformat()}
    stale = {**entry, "last_parsed_time": None}
    server.answers[("GET", path)] = [(200, {"dags": [e], "total_entries": 1}) for e in (stale, entry)]
    dag_ready.wait_for_files(api, tmp_path, since=NOW, timeout_s=10)
    assert sum(p == path for _, p, *_ in server.requests) == 2
    dag_ready.wait_for_files(api, tmp_path, since=NOW + timedelta(hours=1), timeout_s=0.05)


def test_the_newest_change_is_that_of_the_newest_file(tmp_path):
    import os

    for name, stamp in (("a", 100), ("b", 200)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (stamp, stamp))
    (tmp_path / "__pycache__").mkdir()
    assert dag_ready.newest_change([tmp_path]).timestamp() == 200
