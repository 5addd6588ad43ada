"""Leases whose agents run the fake job program."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from include.compute.local import LocalEngine
from include.config.settings import Settings
from include.core.store import ObjectStore
from tests.include.compute.bench_of_leases import Bench
from tests.support.fake_agent import AGENT_COMMAND


@pytest.fixture
def local_bench(settings_for: Callable[..., Settings]) -> Iterator[Callable[[ObjectStore], Bench]]:
    """``local_bench(store)``: the local engine on a store; whatever a test leaves running is ended."""
    benches: list[Bench] = []

    def build(store: ObjectStore) -> Bench:
        engine = LocalEngine(store, settings_for(store), agent_command=AGENT_COMMAND, stop_grace_s=4.0)
        benches.append(Bench(engine, store))
        return benches[-1]

    yield build
    for bench in benches:
        bench.close()
