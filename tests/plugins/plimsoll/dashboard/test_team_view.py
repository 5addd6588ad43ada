"""The dashboard's teams: what they hold of what they may hold, and who waits where."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from include.config.quota_file import load_quotas
from include.config.settings import Settings
from include.core.errors import QueuedError
from include.ledger.ledger import IntentLimits
from plimsoll.dashboard import web_app
from plimsoll.dashboard.team_view import team_view
from plimsoll.hooks.installation import Installation

QUOTAS = "total: {gpus: 8}\nteams: {vision: {gpus: 2, usd_per_h: 3, usd_per_month: 50, priority: 4}, idle: {gpus: 1}}"


@pytest.fixture
def quota_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "quotas.yaml"
    path.write_text(QUOTAS)
    monkeypatch.setenv("PLIMSOLL_QUOTA_FILE", str(path))
    return path


@pytest.fixture
def busy(place: Installation, quota_file: Path) -> Installation:
    """One lease of team vision, and two more that wait."""
    quotas = load_quotas(Settings(quota_file=str(quota_file)))
    for number in (1, 2, 3):
        limits = IntentLimits(
            team="vision",
            gpus=2,
            usd_per_h=Decimal("1.5"),
            commit_usd=Decimal("0.5"),
            quota=quotas["vision"],
            total=quotas.total,
            priority=quotas.priority("vision"),
        )
        try:
            place.ledger.intent(group_id=f"train-{number}", dag_id="digits", run_id=f"r{number}", limits=limits)
        except QueuedError:
            assert number > 1
    return place


@pytest.fixture
def client(busy: Installation, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    monkeypatch.setattr(web_app, "_sources", lambda: (busy.store, busy.ledger))
    for dependency in web_app.app.router.dependencies:
        monkeypatch.setitem(web_app.app.dependency_overrides, dependency.dependency, lambda: None)
    return TestClient(web_app.app)


def test_teams_are_shown_with_what_they_hold_and_may_hold(client: TestClient) -> None:
    shown = client.get("/api/teams").json()
    idle, vision = shown["teams"]
    assert (vision["team"], vision["leases"], vision["gpus"], vision["usd_per_h"]) == ("vision", 1, 2, 1.5)
    assert (vision["spent_usd"], vision["promised_usd"], vision["priority"]) == (0, 0.5, 4)
    assert vision["quota"] == {"gpus": 2, "usd_per_h": 3, "usd_per_month": 50}
    assert (idle["team"], idle["leases"], idle["quota"]["usd_per_h"]) == ("idle", 0, None)
    assert shown["total"]["gpus"] == 8
    assert shown["mistake"] is None


def test_the_queue_is_shown_in_order_and_on_the_page_of_its_run(client: TestClient) -> None:
    queue = client.get("/api/teams").json()["queue"]
    assert [(row["position"], row["run_id"], row["gpus"]) for row in queue] == [(1, "r2", 2), (2, "r3", 2)]
    third = client.get("/api/run", params={"dag_id": "digits", "run_id": "r3"}).json()
    assert [row["position"] for row in third["waits"]] == [2]
    assert client.get("/api/run", params={"dag_id": "digits", "run_id": "r1"}).json()["waits"] == []


def test_teams_are_behind_the_guard(client: TestClient) -> None:
    web_app.app.dependency_overrides.clear()
    assert client.get("/api/teams").status_code in (401, 403)


def test_a_quota_file_with_mistakes_is_told_and_what_is_held_is_shown(busy: Installation, quota_file: Path) -> None:
    quota_file.write_text("teams: {vision: {gpus: many}}")
    shown = team_view(busy.ledger, Settings(quota_file=str(quota_file)))
    assert "teams.vision.gpus: found 'many'" in shown["mistake"]
    assert [(team["team"], team["gpus"], team["quota"]) for team in shown["teams"]] == [("vision", 2, None)]


def test_nothing_is_shown_where_nobody_holds_or_waits(place: Installation) -> None:
    shown = team_view(place.ledger, Settings())
    assert (shown["teams"], shown["queue"], shown["total"], shown["month"]) == ([], [], None, None)
