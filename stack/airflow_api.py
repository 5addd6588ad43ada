"""A small client of Airflow's REST API: no Airflow import, which alone would cost two seconds of CPU."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

_TIMEOUT_S = 20.0
_PAGE = 100
# A proxy of the surrounding network has no business between two programs of one machine.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class ApiError(Exception):
    """Airflow answered with an error, or not at all (status 0)."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status or 'no answer'}: {message}")
        self.status = status


def request(
    method: str, url: str, *, body: object = None, token: str | None = None, timeout_s: float = _TIMEOUT_S
) -> tuple[int, str]:
    """One HTTP request with a JSON body.

    Returns:
        Status and text of the answer; status 0 with the reason when there was none.
    """
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    data = None if body is None else json.dumps(body).encode()
    outgoing = urllib.request.Request(url, method=method, data=data, headers=headers)  # noqa: S310 - own http URLs
    try:
        with _OPENER.open(outgoing, timeout=timeout_s) as answer:
            return int(answer.status), answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(errors="replace")
    except (OSError, ValueError) as error:
        return 0, str(error)


def quoted(part: str) -> str:
    """One path segment; run ids hold colons and pluses."""
    return urllib.parse.quote(part, safe="")


@dataclass(slots=True, kw_only=True)
class AirflowApi:
    """Airflow as one user sees it.

    Attributes:
        url: Base URL.
        user: User name.
        password: Password; exchanged for a token on first use and when the token has expired.
    """

    url: str
    user: str
    password: str = field(repr=False)
    _token: str | None = field(default=None, repr=False)

    def call(self, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401 - any JSON answer
        """One call of the API.

        Raises:
            ApiError: The answer is not 2xx, not JSON, or missing.
        """
        status, text = request(method, self.url + path, body=body, token=self._token or self._login())
        if status == 401:  # noqa: PLR2004 - HTTP: the token has expired
            status, text = request(method, self.url + path, body=body, token=self._login())
        if not 200 <= status < 300:  # noqa: PLR2004 - HTTP: success
            raise ApiError(status, _detail(text))
        try:
            return json.loads(text) if text else None
        except ValueError as error:
            # The web application answers unknown paths with its page and status 200.
            raise ApiError(status, f"{path} did not answer with JSON") from error

    def _login(self) -> str:
        credentials = {"username": self.user, "password": self.password}
        status, text = request("POST", f"{self.url}/auth/token", body=credentials)
        if not 200 <= status < 300:  # noqa: PLR2004 - HTTP: success
            raise ApiError(status, f"log-in as {self.user} failed: {_detail(text)}")
        self._token = str(json.loads(text)["access_token"])
        return self._token

    def find(self, path: str) -> Any:  # noqa: ANN401 - any JSON answer
        """GET, with None for "there is none"."""
        try:
            return self.call("GET", path)
        except ApiError as error:
            if error.status == 404:  # noqa: PLR2004 - HTTP: not found
                return None
            raise

    def pages(self, path: str, key: str) -> Iterator[dict[str, Any]]:
        """All entries of a collection, page by page."""
        offset, total = 0, 1
        while offset < total:
            glue = "&" if "?" in path else "?"
            page = self.call("GET", f"{path}{glue}limit={_PAGE}&offset={offset}")
            entries = page.get(key, [])
            yield from entries
            total = int(page.get("total_entries", 0))
            offset += max(len(entries), 1)

    def dag(self, dag_id: str) -> dict[str, Any] | None:
        """A DAG, or None while Airflow has not seen it."""
        found: dict[str, Any] | None = self.find(f"/api/v2/dags/{quoted(dag_id)}")
        return found

    def unpause(self, dag_id: str) -> None:
        """Let the scheduler run a DAG."""
        self.call("PATCH", f"/api/v2/dags/{quoted(dag_id)}", {"is_paused": False})

    def trigger(self, dag_id: str, conf: dict[str, Any]) -> str:
        """Start a run; returns its run id."""
        body = {"logical_date": None, "conf": conf}
        return str(self.call("POST", f"/api/v2/dags/{quoted(dag_id)}/dagRuns", body)["dag_run_id"])

    def run(self, dag_id: str, run_id: str) -> dict[str, Any]:
        """One run."""
        answer: dict[str, Any] = self.call("GET", f"/api/v2/dags/{quoted(dag_id)}/dagRuns/{quoted(run_id)}")
        return answer

    def fail_run(self, dag_id: str, run_id: str) -> None:
        """Mark a run failed: its running and deferred tasks end, its teardowns run."""
        self.call("PATCH", f"/api/v2/dags/{quoted(dag_id)}/dagRuns/{quoted(run_id)}", {"state": "failed"})

    def active_runs(self, dag_id: str) -> list[dict[str, Any]]:
        """Runs that are queued or running."""
        states = "state=queued&state=running"
        return list(self.pages(f"/api/v2/dags/{quoted(dag_id)}/dagRuns?{states}", "dag_runs"))

    def tasks(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """All task instances of a run."""
        path = f"/api/v2/dags/{quoted(dag_id)}/dagRuns/{quoted(run_id)}/taskInstances"
        return list(self.pages(path, "task_instances"))

    def log(self, task: dict[str, Any]) -> list[dict[str, Any]]:
        """Log events of the last try of a task instance."""
        path = (
            f"/api/v2/dags/{quoted(task['dag_id'])}/dagRuns/{quoted(task['dag_run_id'])}"
            f"/taskInstances/{quoted(task['task_id'])}/logs/{max(1, task['try_number'])}"
            f"?map_index={task.get('map_index', -1)}&full_content=true"
        )
        content = self.call("GET", path).get("content", [])
        return [event for event in content if isinstance(event, dict)]

    def reparse(self, file_token: str) -> None:
        """Ask for a DAG file to be read again now. Not an error when that is already under way."""
        try:
            self.call("PUT", f"/api/v2/parseDagFile/{file_token}")
        except ApiError as error:
            if error.status != 409:  # noqa: PLR2004 - HTTP: conflict, the request is queued already
                raise


def _detail(text: str) -> str:
    """The reason inside an error answer."""
    try:
        detail = json.loads(text).get("detail", text)
    except (ValueError, AttributeError):
        detail = text
    return " ".join(str(detail).split())[:500]
