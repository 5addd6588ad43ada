"""A private Airflow home: its own database, DAGs and plugins of the project, nothing of the developer's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]


def airflow_environment(home: Path) -> dict[str, str]:
    """Environment of a process that uses a private Airflow home."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("AIRFLOW", "PLIMSOLL"))}
    return {
        **inherited,
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(REPO / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(REPO / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(home / "passwords.json"),
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "PYTHONPATH": f"{REPO}:{REPO / 'plugins'}",
        "OMP_NUM_THREADS": "1",
        "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}",
    }


def migrate(home: Path) -> dict[str, str]:
    """Create the database of a private home; returns its environment."""
    home.mkdir(parents=True, exist_ok=True)
    environment = airflow_environment(home)
    subprocess.run(
        [sys.executable, "-m", "airflow", "db", "migrate"],
        env=environment,
        check=True,
        capture_output=True,
        timeout=240,
    )
    return environment
