import json
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from include.core.errors import UserError
from include.ledger.engine import make_engine
from include.ledger.ledger import Ledger

REPO = Path(__file__).resolve().parents[3]
PROCESSES = 8
LOOPS = 50


def crowd(url, processes, loops):
    """Run the worker in several fresh processes at once; their reports."""
    command = [sys.executable, "-m", "tests.support.ledger_worker", url]
    started = [
        subprocess.Popen(
            [*command, f"p{i}", str(loops)], cwd=REPO, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for i in range(processes)
    ]
    reports = []
    for process in started:
        out, err = process.communicate(timeout=200)
        assert process.returncode == 0, err
        reports.append(json.loads(out))
    return reports


@pytest.mark.integration
def test_a_crowd_makes_no_errors_no_gaps_and_no_doubles(empty_url):
    reports = crowd(empty_url, PROCESSES, LOOPS)

    assert [error for report in reports for error in report["errors"]] == []
    created = [lease for report in reports for lease in report["created"]]
    ledger = Ledger(empty_url)
    assert sorted(created) == sorted(ledger.leases("train-shared"))
    assert ledger.leases("train-shared") == tuple(f"train-shared-g{n}" for n in range(1, len(created) + 1))
    for i in range(PROCESSES):
        assert ledger.leases(f"work-p{i}") == tuple(f"work-p{i}-g{n}" for n in range(1, LOOPS + 1))
    assert ledger.open_leases() == ()
    attempts = ledger.attempts(dag_id="crowd", run_id="all")
    assert [a.number for a in attempts] == list(range(1, len(attempts) + 1))
    assert {n for report in reports for n in report["attempts"]} == {a.number for a in attempts}
    ledger.dispose()


@pytest.mark.integration
def test_a_writer_killed_in_the_middle_leaves_no_trace_and_no_lock(ledger, empty_url, run, group):
    program = """
import os, signal, sys
from include.ledger import leases
from include.ledger.ledger import Ledger
leases._set_group = lambda *args, **kwargs: os.kill(os.getpid(), signal.SIGKILL)
Ledger(sys.argv[1]).intent(group_id="train-0123456789ab", dag_id="d", run_id="r")
"""
    killed = subprocess.run([sys.executable, "-c", program, empty_url], cwd=REPO, check=False)
    assert killed.returncode == -9
    assert ledger.events() == ()
    assert ledger.intent(group_id=group, **run).lease_id == f"{group}-g1"


def test_a_second_writer_waits_until_the_first_is_through(tmp_path):
    engine = make_engine(f"sqlite:///{tmp_path}/x.db")
    impatient = make_engine(f"sqlite:///{tmp_path}/x.db")
    with engine.begin() as first:
        first.execute(text("SELECT 1"))
        # Even a transaction that has only read so far holds the lock: nobody comes between its read and its write.
        with impatient.connect() as second:
            second.connection.driver_connection.execute("PRAGMA busy_timeout=1")
            with pytest.raises(OperationalError, match="locked"):
                second.execute(text("SELECT 1"))


def test_sqlite_keeps_an_intent_through_a_power_failure(tmp_path):
    with make_engine(f"sqlite:///{tmp_path}/x.db").begin() as connection:
        assert connection.scalar(text("PRAGMA journal_mode")) == "wal"
        assert connection.scalar(text("PRAGMA synchronous")) == 2


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "mysql://user:secret@host/db"])
def test_other_databases_are_refused_without_showing_the_password(url):
    with pytest.raises(UserError, match="unusable ledger URL") as refusal:
        make_engine(url)
    assert "secret" not in str(refusal.value)
