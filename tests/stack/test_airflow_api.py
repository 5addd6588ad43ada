"""The REST client against a small HTTP server."""

import socket

import pytest

from stack.airflow_api import AirflowApi, ApiError, request


@pytest.fixture
def api(server):
    return AirflowApi(url=server.url, user="admin", password="secret")


def test_it_logs_in_once_and_sends_the_token(server, api):
    server.answers[("GET", "/api/v2/dags/a")] = (200, {"dag_id": "a"})
    assert api.dag("a") == {"dag_id": "a"}
    api.dag("a")
    logins = [entry for entry in server.requests if entry[1] == "/auth/token"]
    assert [entry[2] for entry in logins] == [{"username": "admin", "password": "secret"}]
    assert server.requests[-1][3] == "Bearer t1"


def test_an_expired_token_is_replaced(server, api):
    server.answers[("POST", "/auth/token")] = [(201, {"access_token": "t1"}), (201, {"access_token": "t2"})]
    server.answers[("GET", "/api/v2/dags/a")] = [(401, {"detail": "expired"}), (200, {"dag_id": "a"})]
    assert api.dag("a") == {"dag_id": "a"}
    assert server.requests[-1][3] == "Bearer t2"


def test_the_run_has_no_logical_date(server, api):
    server.answers[("POST", "/api/v2/dags/a/dagRuns")] = (200, {"dag_run_id": "manual__1"})
    assert api.trigger("a", {"x": 1}) == "manual__1"
    assert server.requests[-1][2] == {"logical_date": None, "conf": {"x": 1}}


def test_run_ids_are_quoted_in_paths(server, api):
    path = "/api/v2/dags/a/dagRuns/manual__2026-11-30T10%3A00%3A00%2B00%3A00"
    server.answers[("GET", path)] = (200, {"state": "running"})
    assert api.run("a", "manual__2026-11-30T10:00:00+00:00") == {"state": "running"}


def test_absent_is_none_and_other_errors_tell_their_reason(server, api):
    assert api.dag("nothing") is None
    server.answers[("GET", "/api/v2/dags/a")] = (500, {"detail": "broken\n inside"})
    with pytest.raises(ApiError, match="500: broken inside"):
        api.dag("a")


def test_a_page_of_the_web_application_is_no_answer(server, api):
    server.answers[("GET", "/api/v2/dags/a")] = (200, "<html></html>")
    with pytest.raises(ApiError, match="did not answer with JSON"):
        api.dag("a")


def test_a_wrong_password_is_said_with_the_user(server, api):
    server.answers[("POST", "/auth/token")] = (401, {"detail": "Invalid credentials"})
    with pytest.raises(ApiError, match="log-in as admin failed: Invalid credentials"):
        api.dag("a")


def test_all_pages_are_read(server, api):
    base = "/api/v2/importErrors?limit=100&offset="
    server.answers[("GET", f"{base}0")] = (200, {"import_errors": [{"n": n} for n in range(100)], "total_entries": 101})
    server.answers[("GET", f"{base}100")] = (200, {"import_errors": [{"n": 100}], "total_entries": 101})
    assert [entry["n"] for entry in api.pages("/api/v2/importErrors", "import_errors")] == list(range(101))


def test_nobody_there_is_status_zero():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
        status, reason = request("GET", url)
    assert status == 0
    assert "refused" in reason
    with pytest.raises(ApiError, match="no answer"):
        AirflowApi(url=url, user="admin", password="x").dag("a")


def test_a_proxy_of_the_surroundings_is_not_asked(server, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    server.answers[("GET", "/x")] = (200, {})
    assert request("GET", f"{server.url}/x") == (200, "{}")


def test_a_second_wish_to_parse_a_file_is_no_error(server, api):
    server.answers[("PUT", "/api/v2/parseDagFile/token")] = (409, {"detail": "exists"})
    api.reparse("token")


def test_the_password_is_not_in_the_repr(api):
    assert "secret" not in repr(api)
