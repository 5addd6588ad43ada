"""Raising the budget of one run from the terminal."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from include.config.run_options import RunOptions
from include.config.run_record import RunRecord
from include.core.ids import run_prefix
from include.core.store import ObjectStore
from include.ledger.budget import budget_of
from include.ledger.ledger import Ledger
from include.ledger.migrate import migrate
from stack.raise_budget import main
from tests.support.jobs import workload

RUN = "manual__2026-11-30T10:00:00+00:00"
ORDERED = Decimal("5.0")


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    url, store = f"sqlite:///{tmp_path / 'ledger.db'}", f"file://{tmp_path / 'store'}"
    for name, value in (("VAR", str(tmp_path)), ("LEDGER", url), ("STORE", store)):
        monkeypatch.setenv(f"PLIMSOLL_{name}", value)
    migrate(url)
    prefix = run_prefix(workload="digits", run_id=RUN)
    record = RunRecord(
        dag_id="digits",
        run_id=RUN,
        run_prefix=prefix,
        started_by="person",
        code_version="code",
        workload=workload("digits", limits={"budget_usd": 5.0}),
        options=RunOptions(),
    )
    ObjectStore(store).put_json(f"{prefix}/run.json", record.model_dump(mode="json"))
    return Ledger(url)


def test_a_raised_budget_is_in_the_ledger_and_the_next_step_is_told(
    ledger: Ledger, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--run", f"digits/{RUN}", "--usd", "12.50"]) == 0
    assert budget_of(ledger, dag_id="digits", run_id=RUN, ordered=ORDERED) == Decimal("12.50")
    told = capsys.readouterr().out
    assert "12.50 USD now, it was 5.0 USD" in told
    assert "Clear the failed task" in told


@pytest.mark.parametrize("run", ["", "digits", "/x", "digits/"])
def test_a_run_that_is_none_is_told_beside_the_amount(
    ledger: Ledger, capsys: pytest.CaptureFixture[str], run: str
) -> None:
    assert main(["--run", run, "--usd", "nan"]) == 64
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith(f"RUN names no run | found: {run!r}")
    assert second.startswith("not an amount | where: USD | found: 'nan' | allowed: ")


@pytest.mark.parametrize(
    ("run", "usd", "mistake"),
    [
        ("digits/nobody", "12", "no such run"),
        ("../../x", "12", "where: RUN | found: '../../x'"),
        (f"digits/{RUN}", "much", "not an amount"),
        (f"digits/{RUN}", "-1", "not an amount"),
        (f"digits/{RUN}", "5", "only be raised"),
    ],
)
def test_mistakes_are_one_line(
    ledger: Ledger, capsys: pytest.CaptureFixture[str], run: str, usd: str, mistake: str
) -> None:
    assert main(["--run", run, "--usd", usd]) == 64
    error = capsys.readouterr().err
    assert mistake in error
    assert len(error.splitlines()) == 1
    assert budget_of(ledger, dag_id="digits", run_id=RUN, ordered=ORDERED) == ORDERED
