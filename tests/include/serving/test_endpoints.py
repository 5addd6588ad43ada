from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import numpy as np
import pytest

from include.core.clock import FakeClock
from include.core.store import ObjectStore
from include.serving import endpoints
from include.serving.desired import ActualState, ServedVersion, actual_key, desired_key, mark_verified, read_actual
from include.serving.desired import request_version as request
from include.serving.endpoints import EndpointTable
from include.serving.metrics import ServerMetrics
from tests.support.eventually import eventually
from tests.support.models import linear_model, onnx_logits, put_dataset, put_version

pytestmark = pytest.mark.asyncio
ROW = np.array([[1, 2, 3, 4]], np.float32)


@asynccontextmanager
async def following(store: ObjectStore, clock: FakeClock | None = None) -> AsyncIterator[EndpointTable]:
    table = EndpointTable(store=store, url="http://here", metrics=ServerMetrics(), clock=clock or FakeClock())
    yield table
    await table.close()


def actual(store: ObjectStore, endpoint: str = "toy") -> ActualState:
    state = read_actual(store, endpoint)
    assert state is not None
    return state


async def answer(table: EndpointTable, endpoint: str = "toy") -> np.ndarray:
    return await table.endpoints[endpoint].batcher.submit(ROW, deadline=1e12)


async def test_the_desired_version_is_loaded_and_reported(any_store: ObjectStore) -> None:
    async with following(any_store) as table:
        await table.refresh()
        assert table.endpoints == {}
        served = put_version(any_store)
        desired = request(any_store, "toy", served)
        await table.refresh()
        assert (await answer(table)).tolist() == onnx_logits(linear_model(seed=1), ROW).tolist()
        assert actual(any_store) == ActualState(
            revision=desired.revision,
            state="serving",
            model_name="toy",
            version="1",
            sha256=served.sha256,
            loaded_at="2026-01-01T00:00:00+00:00",
            url="http://here",
        )
    assert actual(any_store).state == "stopped"
    assert actual(any_store).version is None


async def test_several_endpoints_are_apart(file_store: ObjectStore) -> None:
    async with following(file_store) as table:
        request(file_store, "one", put_version(file_store, version="1"))
        request(file_store, "two", put_version(file_store, version="2"))
        await table.refresh()
        assert (await answer(table, "one")).tolist() != (await answer(table, "two")).tolist()


async def test_a_new_version_takes_over_and_queued_requests_are_answered_by_the_old(file_store: ObjectStore) -> None:
    async with following(file_store) as table:
        request(file_store, "toy", put_version(file_store, version="1"))
        await table.refresh()
        queued = [table.endpoints["toy"].batcher.submit(ROW, deadline=1e12) for _ in range(20)]
        request(file_store, "toy", put_version(file_store, version="2"))
        await table.refresh()
        old, new = (onnx_logits(linear_model(seed=seed), ROW).tolist() for seed in (1, 2))
        assert [found.tolist() for found in await asyncio.gather(*queued)] == [old] * 20
        assert (await answer(table)).tolist() == new


def corrupt(store: ObjectStore, served: ServedVersion) -> None:
    store.put(store.key_of(served.model_uri), b"not what was promised")


def vanish(store: ObjectStore, served: ServedVersion) -> None:
    store.delete(store.key_of(served.model_uri))


def lose_manifest(store: ObjectStore, served: ServedVersion) -> None:
    store.delete(store.key_of(served.manifest_uri))


@pytest.mark.parametrize(
    ("damage", "reason"),
    [(corrupt, "artefact is corrupt"), (vanish, "no artefact"), (lose_manifest, "no such dataset")],
)
async def test_a_damaged_version_leaves_the_old_one_serving_and_says_why(
    any_store: ObjectStore, damage: Callable[[ObjectStore, ServedVersion], None], reason: str
) -> None:
    async with following(any_store) as table:
        request(any_store, "toy", put_version(any_store, version="1"))
        await table.refresh()
        served = put_version(any_store, version="2", manifest_uri=any_store.uri("other/manifest.json"))
        if damage is not lose_manifest:
            served = put_version(any_store, version="2")
        damage(any_store, served)
        desired = request(any_store, "toy", served)
        await table.refresh()
        assert (await answer(table)).tolist() == onnx_logits(linear_model(seed=1), ROW).tolist()
        state = actual(any_store)
        assert (state.state, state.version, state.revision) == ("failed", "1", desired.revision)
        assert reason in str(state.error)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (b"\x00garbage", "not a model"),
        (linear_model(width=5), "does not take rows"),
        (linear_model(classes=7), "wanted finite logits"),
        (linear_model(scale=float("nan")), "wanted finite logits"),
    ],
)
async def test_a_model_that_does_not_answer_right_is_not_served(
    file_store: ObjectStore, model: bytes, reason: str
) -> None:
    async with following(file_store) as table:
        request(file_store, "toy", put_version(file_store, model=model))
        await table.refresh()
        assert table.endpoints == {}
        state = actual(file_store)
        assert (state.state, state.version) == ("failed", None)
        assert reason in str(state.error)


async def test_a_restart_with_a_broken_version_serves_the_previous(file_store: ObjectStore) -> None:
    mark_verified(file_store, "toy", request(file_store, "toy", put_version(file_store, version="1")))
    broken = put_version(file_store, version="2")
    corrupt(file_store, broken)
    request(file_store, "toy", broken)
    async with following(file_store) as table:
        await table.refresh()
        assert (await answer(table)).tolist() == onnx_logits(linear_model(seed=1), ROW).tolist()
        assert (actual(file_store).state, actual(file_store).version) == ("failed", "1")


async def test_a_store_that_fails_while_loading_is_tried_again(
    file_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, tries = FakeClock(), []
    load = endpoints.load_model

    def unsteady(store: ObjectStore, served: ServedVersion):
        tries.append(served.version)
        if len(tries) == 1:
            raise ConnectionError("away")
        return load(store, served)

    monkeypatch.setattr(endpoints, "load_model", unsteady)
    request(file_store, "toy", put_version(file_store))
    async with following(file_store, clock) as table:
        await table.refresh()
        assert "away" in str(actual(file_store).error)
        await table.refresh()
        assert len(tries) == 1, "not at every look"
        clock.sleep(endpoints.RETRY_S)
        await table.refresh()
        assert actual(file_store).state == "serving"


async def test_an_actual_state_that_could_not_be_written_is_written_later(
    file_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    request(file_store, "toy", put_version(file_store))

    async def away(*_: object) -> None:
        raise ConnectionError("away")

    async with following(file_store) as table:
        with monkeypatch.context() as patch:
            patch.setattr(file_store, "put_json_async", away)
            await table.refresh()
        assert read_actual(file_store, "toy") is None
        assert "toy" in table.endpoints, "serving does not wait for the paperwork"
        await table.refresh()
        assert actual(file_store).state == "serving"


async def test_an_unreadable_desired_state_changes_nothing_that_is_served(file_store: ObjectStore) -> None:
    async with following(file_store) as table:
        request(file_store, "toy", put_version(file_store))
        request(file_store, "zoo", put_version(file_store))
        await table.refresh()
        for nonsense in (b"{", b"[]", b'{"served": 1}'):
            file_store.put(desired_key("toy"), nonsense)
            await table.refresh()
            assert "not valid" in str(actual(file_store).error)
        assert (actual(file_store).state, actual(file_store).version) == ("failed", "1")
        assert set(table.endpoints) == {"toy", "zoo"}
        request(file_store, "zoo", put_version(file_store, version="2"))
        await table.refresh()
        assert table.endpoints["zoo"].model.served.version == "2", "the other endpoint still follows"


async def test_without_desired_state_the_endpoint_is_withdrawn(file_store: ObjectStore) -> None:
    async with following(file_store) as table:
        request(file_store, "toy", put_version(file_store))
        await table.refresh()
        file_store.delete(desired_key("toy"))
        await table.refresh()
        assert table.endpoints == {}
        assert actual(file_store).state == "stopped"


async def test_verifying_does_not_load_again(file_store: ObjectStore) -> None:
    async with following(file_store) as table:
        desired = request(file_store, "toy", put_version(file_store))
        await table.refresh()
        before = table.endpoints["toy"]
        mark_verified(file_store, "toy", desired)
        await table.refresh()
        again = request(file_store, "toy", desired.served)
        await table.refresh()
        assert table.endpoints["toy"] is before
        assert (actual(file_store).state, actual(file_store).revision) == ("serving", again.revision)


async def test_a_store_that_is_away_does_not_end_the_following(
    file_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def away(prefix: str) -> None:
        calls.append(prefix)
        raise ConnectionError("away")

    async with following(file_store) as table:
        request(file_store, "toy", put_version(file_store))
        table._poll_s = 0.001
        with monkeypatch.context() as patch:
            patch.setattr(file_store, "list", away)
            task = asyncio.create_task(table.follow())
            await eventually(lambda: len(calls) > 1)
        await eventually(lambda: "toy" in table.endpoints)
        task.cancel()


async def test_private_prefixes_and_nested_keys_are_left_alone(file_store: ObjectStore) -> None:
    async with following(file_store) as table:
        served = put_version(file_store, manifest_uri=put_dataset(file_store).uri)
        request(file_store, "toy", served, prefix="runs/x/server")
        request(file_store, "nested/name", served)
        await table.refresh()
        assert table.endpoints == {}
        assert not file_store.exists(actual_key("toy", prefix="runs/x/server"))
