import sqlite3
import sys

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from include.ledger.engine import make_engine
from include.ledger.ledger import Ledger
from include.ledger.migrate import main, migrate
from include.ledger.schema import metadata


def test_the_migrations_make_what_the_code_expects(empty_url):
    migrate(empty_url)
    engine = make_engine(empty_url)
    with engine.begin() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    engine.dispose()


def test_migrating_again_changes_nothing(empty_url, run, group):
    first = migrate(empty_url)
    ledger = Ledger(empty_url)
    ledger.intent(group_id=group, **run)

    assert migrate(empty_url) == first
    assert ledger.leases(group) == (f"{group}-g1",)
    ledger.dispose()


def test_a_failed_migration_leaves_an_empty_database(tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path}/ledger.db"
    monkeypatch.setattr("alembic.op.create_index", lambda *a, **k: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        migrate(url)
    assert sqlite3.connect(tmp_path / "ledger.db").execute("SELECT name FROM sqlite_master").fetchall() == []


@pytest.mark.parametrize("table", ["events", "charges"])
@pytest.mark.parametrize("verb", ["UPDATE {} SET id = 7", "DELETE FROM {}"])
def test_the_database_itself_refuses_to_rewrite_history(ledger, run, group, table, verb):
    ledger.intent(group_id=group, **run)
    columns = '"x_ChargeKey", "ChargePeriodStart", "ChargePeriodEnd", "PricingUnit", "BillingCurrency", "x_DagId", '
    columns += '"x_RunId", "x_LeaseId", "x_EnergyMethod", "x_CostMethod"'
    with ledger._engine.begin() as connection:
        connection.execute(
            text(f"INSERT INTO charges ({columns}) VALUES ({', '.join(['1'] * 10)})".replace("1", "'1'"))
        )
    with pytest.raises(DBAPIError, match="append-only"), ledger._engine.begin() as connection:
        connection.execute(text(verb.format(table)))


def test_the_command_migrates_the_ledger_of_the_settings(tmp_path, monkeypatch):
    monkeypatch.setenv("PLIMSOLL_LEDGER", f"sqlite:///{tmp_path}/var/ledger.db")
    monkeypatch.setattr(sys, "argv", ["migrate"])
    main()
    assert Ledger(f"sqlite:///{tmp_path}/var/ledger.db").open_leases() == ()
