from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial

import psutil
import pytest

from include.core.store import ObjectStore
from include.jobs import loadtest
from include.serving.knee import SearchSettings
from include.serving.loadgen import LoadSettings

pytestmark = pytest.mark.integration


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two short probes at rates that any machine serves."""
    monkeypatch.setattr(loadtest, "SearchSettings", partial(SearchSettings, start_per_s=20, max_per_s=40, bisections=0))
    monkeypatch.setattr(loadtest, "LoadSettings", partial(LoadSettings, duration_s=0.3, warm_s=0.1))


def servers() -> list[psutil.Process]:
    return [
        process
        for process in psutil.Process().children(recursive=True)
        if "include.serving.server" in process.cmdline()
    ]


def test_the_rate_is_raised_and_costed(any_store: ObjectStore, toy_request: Callable, context_for: Callable) -> None:
    request = toy_request("loadtest", any_store, usd_per_h="0.36")
    # An objective that a crowded test machine meets too; what is tested is the way, not the speed.
    serving = request.workload.serving.model_copy(update={"slo_p99_ms": 5000.0})
    request = request.model_copy(update={"workload": request.workload.model_copy(update={"serving": serving})})
    result = loadtest.run(context_for(request, any_store))
    assert result.last_good_rate_per_s == 40
    assert [(point.rate_per_s, point.verdict) for point in result.curve] == [(20, "pass"), (40, "pass")]
    assert result.upper_side == "inconclusive"
    assert result.usd_per_1000 == pytest.approx(0.36 / 3600 / 40 * 1000)
    assert result.cpu_ms_per_request is not None
    assert result.cpu_ms_per_request > 0
    assert "measured" in result.method
    assert "0.36 USD per hour" in result.method
    stored = any_store.get_json(f"{request.run_prefix}/serving/loadtest-1.json")
    assert stored == json.loads(result.model_dump_json())
    assert servers() == []
    assert not list(any_store.list(f"{request.base}/server")), "the private states are removed"
    assert not any_store.exists("serving/toy/desired.json"), "the supervised server must not hear of it"


def test_without_a_price_the_cost_is_unknown(
    file_store: ObjectStore, toy_request: Callable, context_for: Callable
) -> None:
    result = loadtest.run(context_for(toy_request("loadtest", file_store, usd_per_h=None), file_store))
    assert result.usd_per_1000 is None
    assert "cost unknown" in result.method


def test_the_server_ends_also_when_the_test_fails(
    file_store: ObjectStore, toy_request: Callable, context_for: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    def fail(*_: object, **__: object) -> None:
        seen.extend(process.pid for process in servers())
        raise RuntimeError("generator broke")

    monkeypatch.setattr(loadtest, "find_knee", fail)
    with pytest.raises(RuntimeError, match="generator broke"):
        loadtest.run(context_for(toy_request("loadtest", file_store), file_store))
    assert len(seen) == 1
    assert not psutil.pid_exists(seen[0])


def test_an_artefact_that_cannot_be_served_is_an_error(
    file_store: ObjectStore, toy_request: Callable, context_for: Callable
) -> None:
    request = toy_request("loadtest", file_store)
    file_store.put(file_store.key_of(request.verdict.scorecards[0].model_uri), b"garbage")
    with pytest.raises(RuntimeError, match="artefact is corrupt"):
        loadtest.run(context_for(request, file_store))
    assert servers() == []
