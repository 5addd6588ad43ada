"""Ledgers on SQLite and on a real PostgreSQL, empty for each test."""

import os
import shutil
import subprocess
import tempfile
from itertools import count
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from include.core.clock import FakeClock
from include.ledger.ledger import Ledger
from include.ledger.migrate import migrate

RUN = {"dag_id": "digits", "run_id": "manual__2026-11-30"}
GROUP = "train-0123456789ab"

_databases = count(1)


def _postgres_bin():
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    on_path = shutil.which("initdb")
    if not found and on_path is None:
        pytest.skip("SKIPPED, NOT TESTED ON POSTGRESQL: no initdb here; `apt-get install postgresql` brings it")
    return found[-1].parent if found else Path(on_path).parent


def _as_server_user():
    # initdb refuses to run as root; Debian's package brings the user.
    return ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []


def _quietly(folder, command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=folder)


@pytest.fixture(scope="session")
def postgres_socket():
    """Folder of the Unix socket of a server that this session started; it listens on no port."""
    binaries, user = _postgres_bin(), _as_server_user()
    root = Path(tempfile.mkdtemp(prefix="plimsoll-pg-"))
    if user:
        shutil.chown(root, "postgres")
    options = f"-k {root} -c listen_addresses='' -c fsync=off"
    try:
        _quietly(root, [*user, binaries / "initdb", "-D", root / "data", "-U", "postgres", "-A", "trust"])
        control = [*user, binaries / "pg_ctl", "-D", root / "data", "-w"]
        _quietly(root, [*control, "-o", options, "-l", root / "server.log", "start"])
        try:
            yield root
        finally:
            _quietly(root, [*control, "-m", "fast", "stop"])
    finally:
        shutil.rmtree(root)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.integration)])
def empty_url(request, tmp_path):
    """URL of a database without tables."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/deep/ledger.db"
    socket = request.getfixturevalue("postgres_socket")
    name = f"ledger_{next(_databases)}"
    url = f"postgresql+psycopg2://postgres@/{{}}?host={socket}"
    admin = create_engine(url.format("postgres"), isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    admin.dispose()
    return url.format(name).replace("+psycopg2", "")


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def ledger(empty_url, clock):
    """A migrated, empty ledger."""
    migrate(empty_url)
    ledger = Ledger(empty_url, clock=clock)
    yield ledger
    ledger.dispose()


@pytest.fixture
def sqlite_ledger(tmp_path, clock):
    url = f"sqlite:///{tmp_path}/ledger.db"
    migrate(url)
    ledger = Ledger(url, clock=clock)
    yield ledger
    ledger.dispose()


@pytest.fixture
def run():
    return dict(RUN)


@pytest.fixture
def group():
    return GROUP
