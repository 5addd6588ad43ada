import subprocess
import sys

import pytest


def test_a_record_with_a_key_is_written_once(ledger, run):
    assert ledger.record("prediction", key="p1", body={"usd": None, "kwh": 0.25}, **run)
    assert not ledger.record("prediction", key="p1", body={"usd": "9"}, **run)
    assert ledger.record("saving", body={"usd": "1.50"}, job="train", **run)
    assert ledger.record("saving", body={"usd": "1.50"}, **run)
    assert [e.body for e in ledger.events(kind="prediction")] == [{"usd": None, "kwh": 0.25}]
    assert len(ledger.events(kind="saving")) == 2


def test_a_record_cannot_pretend_to_be_an_end(ledger, run):
    with pytest.raises(ValueError, match="own method"):
        ledger.record("ended", body={}, **run)


def test_events_are_filtered_and_the_newest_come_first(ledger, run):
    for number in range(5):
        ledger.record("saving", body={"n": number}, **run)
    ledger.record("saving", body={"n": 9}, dag_id="other", run_id=run["run_id"])
    assert [e.body["n"] for e in ledger.events(limit=2)] == [9, 4]
    assert [e.body["n"] for e in ledger.events(dag_id="digits", limit=2)] == [4, 3]
    assert [e.body["n"] for e in ledger.events(dag_id="other", run_id=run["run_id"])] == [9]


def test_a_lock_has_one_owner_until_it_expires(ledger, clock):
    assert ledger.acquire_lock("clean-up", "a", 10)
    assert not ledger.acquire_lock("clean-up", "b", 10)
    clock.sleep(8)
    assert ledger.acquire_lock("clean-up", "a", 10)
    clock.sleep(8)
    assert not ledger.acquire_lock("clean-up", "b", 10)
    clock.sleep(3)
    assert ledger.acquire_lock("clean-up", "b", 10)
    assert not ledger.release_lock("clean-up", "a")
    assert ledger.release_lock("clean-up", "b")
    assert ledger.acquire_lock("clean-up", "a", 10)


def test_importing_the_ledger_stays_light():
    heavy = "[m for m in ('alembic', 'torch', 'numpy', 'pandas', 'airflow', 'mlflow') if m in sys.modules]"
    program = f"import sys, include.ledger.ledger, include.ledger.charges; print({heavy})"
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
