"""Health: heartbeats of this start, probes, and who answers."""

import socket
from datetime import UTC, datetime, timedelta

import pytest

from stack import health
from stack.errors import StackError
from stack.ports import Ports

NOW = datetime.now(UTC)


def airflow_health(**changes):
    beat = NOW.isoformat()
    parts = {
        "metadatabase": {"status": "healthy"},
        "scheduler": {"status": "healthy", "latest_scheduler_heartbeat": beat},
        "triggerer": {"status": "healthy", "latest_triggerer_heartbeat": beat},
        "dag_processor": {"status": "healthy", "latest_dag_processor_heartbeat": beat},
    }
    return {**parts, **changes}


@pytest.fixture
def ports(server):
    """All three servers are the one fake."""
    server.answers[("GET", "/api/v2/monitor/health")] = (200, airflow_health())
    server.answers[("GET", "/health")] = (200, "OK")
    server.answers[("GET", "/ping")] = (200, {})
    server.answers[("GET", "/execution/health")] = (200, {})
    return Ports(airflow=server.port, mlflow=server.port, serving=server.port)


def test_all_healthy(ports):
    assert health.unhealthy(ports, since=NOW) == {}


def test_heartbeats_of_an_earlier_start_do_not_count(ports):
    later = NOW + timedelta(seconds=1)
    assert set(health.unhealthy(ports, since=later)) == {"scheduler", "triggerer", "dag-processor"}
    assert health.unhealthy(ports, since=None) == {}


def test_one_component_down_is_named(server, ports):
    down = {"status": "unhealthy", "latest_triggerer_heartbeat": None}
    server.answers[("GET", "/api/v2/monitor/health")] = (200, airflow_health(triggerer=down))
    assert health.unhealthy(ports, since=NOW) == {"triggerer": "unhealthy"}


def test_the_interface_that_tasks_report_to_is_built_before_a_task_needs_it(server, ports):
    server.answers[("GET", "/execution/health")] = (500, "")
    assert health.unhealthy(ports, since=NOW) == {"execution-api": "/execution/health answers 500"}


def test_servers_that_answer_otherwise_are_named(server, ports):
    server.answers[("GET", "/health")] = (503, "no")
    server.answers[("GET", "/api/v2/monitor/health")] = (200, "<html>")
    found = health.unhealthy(ports, since=NOW)
    assert found["mlflow"] == "/health answers 503"
    assert set(found) == {"mlflow", "api-server"}


def wait(installation, ports, **changes):
    import os

    options = {"failed_programs": list, "timeout_s": 0.3, "say": lambda line: None, **changes}
    health.wait_healthy(installation=installation, ports=ports, since=NOW, supervisor_pid=os.getpid(), **options)


@pytest.fixture
def ours(monkeypatch):
    """The fake's port counts as one of ours; the fake listens in this very process."""
    monkeypatch.setattr(health, "strangers", lambda ports, pid: [])


def test_it_stops_waiting_with_the_reasons(installation, ports, server, ours):
    server.answers[("GET", "/ping")] = (500, "")
    with pytest.raises(StackError, match="model-server: /ping answers 500"):
        wait(installation, ports)


def test_a_program_that_gave_up_ends_the_wait_with_the_end_of_its_log(installation, ports, server, ours):
    server.answers[("GET", "/ping")] = (500, "")
    (installation.logs / "model-server.log").write_text("first\nModuleNotFoundError: x\n")
    with pytest.raises(StackError, match=r"(?s)model-server does not stay up.*ModuleNotFoundError: x"):
        wait(installation, ports, failed_programs=lambda: ["model-server"], timeout_s=60)


@pytest.mark.parametrize("status", [200, 500])
def test_a_server_of_somebody_else_on_our_port_is_noticed_at_once(installation, ports, server, status):
    server.answers[("GET", "/ping")] = (status, {})
    with pytest.raises(StackError, match="Another program has taken the port of airflow"):
        # The fake listens in this very process, which is not one of its own descendants.
        wait(installation, ports, timeout_s=60)


def test_nobody_there_is_not_healthy():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        found = health.unhealthy(Ports(airflow=port, mlflow=port, serving=port), since=None)
    assert set(found) == {"api-server", "mlflow", "model-server"}
