"""docker-compose.yml: every component is there, secrets come from the environment, nothing listens to the world."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

REPO = Path(__file__).resolve().parents[2]
COMPOSE = yaml.safe_load((REPO / "docker-compose.yml").read_text())
SERVICES = COMPOSE["services"]


def test_all_components_are_there() -> None:
    wanted = {"postgres", "migrate", "api-server", "scheduler", "dag-processor", "triggerer", "mlflow", "model-server"}
    assert wanted <= set(SERVICES)


def test_airflow_components_are_separate_processes() -> None:
    for name in ("api-server", "scheduler", "dag-processor", "triggerer"):
        assert SERVICES[name]["command"][:2] == ["airflow", name]


def test_no_secret_has_a_default() -> None:
    text = (REPO / "docker-compose.yml").read_text()
    for name in ("POSTGRES_PASSWORD", "JWT_SECRET", "FERNET_KEY"):
        uses = re.findall(rf"\$\{{{name}([^}}]*)\}}", text)
        assert uses, name
        assert all(use.startswith(":?") for use in uses), name
    example = (REPO / ".env.example").read_text()
    assert re.search(r"^POSTGRES_PASSWORD=$", example, re.MULTILINE)


def test_ports_are_published_on_loopback_only() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_services_wait_for_the_migration() -> None:
    for name in ("api-server", "scheduler", "dag-processor", "triggerer", "mlflow", "model-server"):
        assert SERVICES[name]["depends_on"] == {"migrate": {"condition": "service_completed_successfully"}}, name


def test_settings_in_compose_exist() -> None:
    from include.config.settings import Settings

    used = [key for key in SERVICES["scheduler"]["environment"] if key.startswith("PLIMSOLL_")]
    assert used
    assert {key.removeprefix("PLIMSOLL_").lower() for key in used} <= set(Settings.model_fields)


def test_the_image_installs_torch_first_and_holds_no_secret() -> None:
    text = (REPO / "Dockerfile").read_text()
    assert text.index('"$TORCH"') < text.index("-r requirements.txt")
    assert "USER plimsoll" in text
    ignored = (REPO / ".dockerignore").read_text().split()
    assert {".env", ".git", "var"} <= set(ignored)
