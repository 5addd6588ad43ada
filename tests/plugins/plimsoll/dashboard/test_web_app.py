"""The dashboard: every route refuses strangers; what it shows comes from ledger and store."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi import FastAPI, HTTPException
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from include.config.workload import Workload
from include.core.contracts.plan import Plan
from include.core.ids import run_prefix
from plimsoll.dashboard import web_app
from plimsoll.dashboard.run_view import recent_runs, run_view
from plimsoll.hooks.installation import Installation
from tests.support.task_context import DAG_ID, RUN_ID, write_run

GUARDS = [dependency.dependency for dependency in web_app.app.router.dependencies]
RUN = {"dag_id": DAG_ID, "run_id": RUN_ID}


@pytest.fixture
def client(place: Installation, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    monkeypatch.setattr(web_app, "_sources", lambda: (place.store, place.ledger))
    for guard in GUARDS:
        monkeypatch.setitem(web_app.app.dependency_overrides, guard, lambda: None)
    return TestClient(web_app.app)


def test_every_route_is_guarded() -> None:
    assert GUARDS
    routes = [route for route in web_app.app.routes if isinstance(route, APIRoute)]
    assert routes
    for route in routes:
        assert {dependency.call for dependency in route.dependant.dependencies} & set(GUARDS), route.path
    assert [route for route in web_app.app.routes if not isinstance(route, APIRoute)] == []


def test_the_guard_is_what_keeps_strangers_out(place: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise HTTPException(401)

    monkeypatch.setattr(web_app, "_sources", lambda: (place.store, place.ledger))
    for guard in GUARDS:
        monkeypatch.setitem(web_app.app.dependency_overrides, guard, refuse)
    stranger = TestClient(web_app.app)
    for path in ("/", "/api/runs", "/api/run", "/api/picture", "/docs", "/openapi.json", "/redoc"):
        assert stranger.get(path, params={**RUN, "name": "pareto.png"}).status_code in (401, 404), path
    assert isinstance(web_app.app, FastAPI)
    assert web_app.app.openapi_url is None


def test_a_run_without_anything_is_shown_as_such(client: TestClient) -> None:
    shown = client.get("/api/run", params=RUN).json()
    assert shown["plan"] is None
    assert shown["training"] is None
    assert shown["learned"] is None
    assert shown["totals"]["usd"] is None
    assert shown["leases"] == []


def test_a_run_shows_its_plan_leases_and_attempts(
    client: TestClient, place: Installation, digits: Workload, planned: Plan
) -> None:
    write_run(place, digits)
    intent = place.ledger.intent(group_id="train-1", dag_id=DAG_ID, run_id=RUN_ID)
    place.ledger.begin_attempt(group_id="train-1", job="train", lease_id=intent.lease_id, dag_id=DAG_ID, run_id=RUN_ID)
    shown = client.get("/api/run", params=RUN).json()
    assert shown["plan"]["offer"]["instance_type"] == planned.offer.instance_type
    assert shown["leases"] == [{"lease_id": "train-1-g1", "open": True, "reason": None}]
    assert [attempt["job"] for attempt in shown["attempts"]] == ["train"]
    [listed] = client.get("/api/runs").json()
    assert (listed["run_id"], listed["open_leases"]) == (RUN_ID, 1)


def test_a_run_shows_the_verdict_over_the_newest_attempt_that_left_telemetry(
    client: TestClient, place: Installation
) -> None:
    intent = place.ledger.intent(group_id="train-1", dag_id=DAG_ID, run_id=RUN_ID)
    for number, verdict in ((1, "data-bound"), (2, None)):
        run = {"dag_id": DAG_ID, "run_id": RUN_ID, "job": "train"}
        assert place.ledger.begin_attempt(group_id="train-1", lease_id=intent.lease_id, **run) == number
        place.ledger.end_attempt(**run, attempt=number, reason="preempted")
        if verdict:
            telemetry = {"ranks": [{"steps": {"step_p50_s": 0.25}}], "diagnosis": {"verdict": verdict}, "traces": []}
            prefix = run_prefix(workload=DAG_ID, run_id=RUN_ID)
            place.store.put_json(f"{prefix}/jobs/train-{number}/telemetry.json", telemetry)
    shown = client.get("/api/run", params=RUN).json()["training"]
    assert (shown["attempt"], shown["diagnosis"]["verdict"], shown["step_p50_s"]) == (1, "data-bound", 0.25)


def test_a_run_shows_what_it_taught(client: TestClient, place: Installation) -> None:
    learned = {"outcome": "timed out", "compared": [], "recommendation": None}
    place.store.put_json(f"{run_prefix(workload=DAG_ID, run_id=RUN_ID)}/learned.json", learned)
    assert client.get("/api/run", params=RUN).json()["learned"] == learned


def test_pictures_are_served_in_a_sandbox(client: TestClient, place: Installation) -> None:
    place.store.put(f"{run_prefix(workload=DAG_ID, run_id=RUN_ID)}/selection/pareto.html", b"<p>front</p>")
    answer = client.get("/api/picture", params={**RUN, "name": "pareto.html"})
    assert answer.text == "<p>front</p>"
    assert "sandbox" in answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


@pytest.mark.parametrize("name", ["verdict.json", "../run.json", "pareto.png"])
def test_only_pictures_are_served(client: TestClient, name: str) -> None:
    assert client.get("/api/picture", params={**RUN, "name": name}).status_code == 404


@pytest.mark.parametrize("path", ["/api/run", "/api/picture", "/data-docs"])
@pytest.mark.parametrize("dag_id", ["../x", "..", ".", "a/b", "", "a b", "x" * 300])
def test_names_that_could_leave_the_store_are_refused(client: TestClient, path: str, dag_id: str) -> None:
    answer = client.get(path, params={"dag_id": dag_id, "run_id": "r", "name": "pareto.html"})
    assert answer.status_code == 422


def report(place: Installation, attempt: int) -> str:
    prefix = f"{run_prefix(workload=DAG_ID, run_id=RUN_ID)}/validation/attempt-{attempt}/docs"
    place.store.put(f"{prefix}/index.html", f"report {attempt}".encode())
    place.store.put(f"{prefix}/static/styles/page.css", b"p {}")
    return prefix


def test_data_docs_lead_to_the_newest_report(client: TestClient, place: Installation) -> None:
    for attempt in (2, 10):
        report(place, attempt)
    answer = client.get("/data-docs", params=RUN)
    assert answer.text == "report 10"
    assert "sandbox" in answer.headers["Content-Security-Policy"]
    page = str(answer.url.path).removesuffix("index.html")
    assert client.get(f"{page}static/styles/page.css").headers["content-type"].startswith("text/css")


def test_a_run_without_a_report_says_who_writes_it(client: TestClient) -> None:
    answer = client.get("/data-docs", params=RUN)
    assert answer.status_code == 404
    assert "validate" in answer.json()["detail"]


@pytest.mark.parametrize("path", ["..%2f..%2frun.json", "%2e%2e/run.json", ".hidden", "a//b", "absent.html"])
def test_data_docs_stay_inside_the_report(client: TestClient, place: Installation, path: str) -> None:
    report(place, 1)
    key = run_prefix(workload=DAG_ID, run_id=RUN_ID).rpartition("/")[2]
    assert client.get(f"/data-docs/{DAG_ID}/{key}/attempt-1/{path}").status_code == 404


def test_a_damaged_document_is_shown_as_absent(place: Installation) -> None:
    place.store.put(f"{run_prefix(workload=DAG_ID, run_id=RUN_ID)}/plan.json", b"{broken")
    shown = run_view(store=place.store, ledger=place.ledger, dag_id=DAG_ID, run_id=RUN_ID)
    assert shown["plan"] is None
    assert recent_runs(place.ledger) == []


def test_the_page_writes_data_as_text_only() -> None:
    page = Path(web_app.__file__).with_name("page.html").read_text()
    assert "innerHTML" not in page
    assert "http://" not in page
    assert "https://" not in page
