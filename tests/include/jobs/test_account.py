from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pytest

from include.core.errors import UserError
from include.core.json_codec import to_json
from include.core.store import ObjectStore
from include.jobs import account, register
from include.ledger.totals import run_totals
from include.registry.mlflow_registry import MlflowRegistry
from tests.support.jobs import build_request


def logged(registry: MlflowRegistry, run: str | None):
    return registry._client.get_run(run).data


@pytest.fixture
def log(file_store: ObjectStore, registry_uri: str, context_for: Callable):
    def run(**inputs: object):
        context = context_for(build_request("account", inputs=inputs), file_store, mlflow_uri=registry_uri)
        return account.run(context).mlflow_run_id

    return run


def test_known_figures_become_metrics_and_methods_tags(log, registry: MlflowRegistry) -> None:
    run = log(
        totals={"usd": str(Decimal("0.25")), "kwh": 0.001, "gco2e": None, "cost_methods": ["measured", "estimated"]},
        predicted={"usd": "0.30", "kwh": None, "method": "estimated from FLOPs"},
    )
    data = logged(registry, run)
    assert data.metrics == {"usd": 0.25, "kwh": 0.001, "predicted.usd": 0.3}
    assert data.tags["plimsoll.cost_methods"] == "measured; estimated"
    assert data.tags["plimsoll.predicted.method"] == "estimated from FLOPs"


def test_a_known_part_is_logged_only_beside_an_unknown_total(log, registry: MlflowRegistry) -> None:
    known = {"usd": "0.25", "kwh": 0.002, "gco2e": 0.0}
    run = log(
        totals={"usd": "0.25", "kwh": None, "gco2e": None, "unknown": {"kwh": 1, "gco2e": 2}, "known_part": known}
    )
    assert logged(registry, run).metrics == {
        "usd": 0.25,
        "known_part.kwh": 0.002,
        "unknown.kwh": 1.0,
        "unknown.gco2e": 2.0,
    }


def test_the_totals_of_the_ledger_can_be_logged(log, registry: MlflowRegistry) -> None:
    run = log(totals=to_json(run_totals(())), predicted=None)
    assert logged(registry, run).metrics == {"charges": 0.0}


def test_nothing_known_makes_no_run(log, registry: MlflowRegistry) -> None:
    assert log(totals={"usd": None, "method": "unknown"}) is None
    assert registry._client.get_experiment_by_name("digits") is None


def test_the_figures_join_what_the_run_registered(
    file_store: ObjectStore, registry_uri: str, context_for: Callable, toy_request: Callable
) -> None:
    context = context_for(toy_request("register", file_store), file_store, mlflow_uri=registry_uri)
    registered = register.run(context)
    request = toy_request("account", file_store, totals={"usd": "1.5"})
    result = account.run(context_for(request, file_store, mlflow_uri=registry_uri))
    assert result.mlflow_run_id == registered.mlflow_run_id


@pytest.mark.parametrize("totals", [None, [], {"usd": True}, {"usd": float("nan")}, {"deep": {"usd": float("inf")}}])
def test_totals_that_cannot_be_logged_are_refused(log, totals: object) -> None:
    with pytest.raises(UserError):
        log(totals=totals)
