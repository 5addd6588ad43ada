"""Agents and jobs see an allow-list of variables, nothing else."""

from __future__ import annotations

from include.compute.engines.local_process import agent_environment
from include.compute.environment import allowed_environment
from include.config.settings import REPO, Settings

SECRETS = {
    "AIRFLOW__CORE__SQL_ALCHEMY_CONN": "postgresql://u:secret@db",
    "AIRFLOW__API_AUTH__JWT_SECRET": "secret",
    "AIRFLOW_CONN_AWS": "aws://key:secret@",
    "GITHUB_TOKEN": "secret",
}


def test_secrets_of_airflow_are_not_passed_on():
    wanted = {"PATH": "/bin", "LC_ALL": "C", "AWS_REGION": "eu-west-1", "PLIMSOLL_REGION": "FR", "LANG": "C"}
    assert allowed_environment({**SECRETS, **wanted}) == wanted


def test_an_agent_gets_the_settings_and_finds_the_code(monkeypatch, tmp_path):
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", f"/elsewhere:{REPO}")
    monkeypatch.setenv("PLIMSOLL_WORK_ROOT", "/not/this/one")
    settings = Settings(work_root=tmp_path, lost_after_s=33.0)
    environment = agent_environment(settings)
    assert not SECRETS.keys() & environment.keys()
    assert environment["PYTHONPATH"] == f"{REPO}:/elsewhere"
    assert Settings.from_environment(environment) == settings
