"""The clean-up operator: dry unless told otherwise, and nothing at all when references cannot be read."""

from __future__ import annotations

import pytest

from include.core.ids import run_prefix
from plimsoll.hooks.installation import Installation
from plimsoll.operators import storage_lifecycle
from plimsoll.operators.storage_lifecycle import StorageLifecycleOperator
from tests.support.task_context import DAG_ID, RUN_ID, FakeTaskInstance, context

PREFIX = run_prefix(workload=DAG_ID, run_id=RUN_ID)
LITTER = f"{PREFIX}/checkpoints/step-000001-1/half.distcp"


@pytest.fixture
def references(monkeypatch: pytest.MonkeyPatch):
    def known(found: tuple[str, ...] | None) -> None:
        monkeypatch.setattr(storage_lifecycle, "registry_references", lambda settings, store: found)

    known(())
    return known


@pytest.fixture(autouse=True)
def litter(place: Installation) -> None:
    place.store.put(LITTER, b"never committed")
    place.store.put(f"{PREFIX}/run.json", b"{}")


def clean(**kwargs) -> dict:
    return StorageLifecycleOperator(task_id="clean_up", **kwargs).execute(context(FakeTaskInstance()))


def test_it_only_reports_by_default(place: Installation, references) -> None:
    report = clean(scope="run", max_share=1.0)
    assert report["dry_run"] is True
    assert report["quarantined_bytes"] == len(b"never committed")
    assert place.store.exists(LITTER)


def test_applied_it_moves_litter_to_quarantine(place: Installation, references) -> None:
    clean(scope="run", apply=True, max_share=1.0)
    assert not place.store.exists(LITTER)
    assert any(key.endswith(LITTER) for key, _ in place.store.list("quarantine"))
    assert place.store.exists(f"{PREFIX}/run.json")


def test_an_unreadable_registry_touches_nothing(place: Installation, references) -> None:
    references(None)
    assert clean(scope="run", apply=True, max_share=1.0)["quarantined_objects"] == 0
    assert place.store.exists(LITTER)


def test_a_run_that_is_not_over_is_left_alone_by_the_daily_pass(place: Installation, references) -> None:
    clean(scope="all", apply=True, max_share=1.0)
    assert place.store.exists(LITTER)
    place.store.put_json(f"{PREFIX}/sealed.json", {})
    place.ledger.intent(group_id="train-1", dag_id=DAG_ID, run_id=RUN_ID)
    clean(scope="all", apply=True, max_share=1.0)
    assert place.store.exists(LITTER), "the run was cleared and trains again"


def test_the_daily_pass_cleans_sealed_runs(place: Installation, references) -> None:
    place.store.put_json(f"{PREFIX}/sealed.json", {})
    clean(scope="all", apply="True", max_share="1.0", max_objects="10")
    assert not place.store.exists(LITTER)


def test_the_registry_is_read_by_a_process_that_may_fail(place: Installation) -> None:
    assert clean(scope="run", apply=True, max_share=1.0)["quarantined_objects"] == 0
    assert place.store.exists(LITTER)
