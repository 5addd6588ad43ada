from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import numpy as np
import pytest

from include.core.store import ObjectStore
from include.serving.app import RequestLimits, build_app
from include.serving.desired import request_version
from include.serving.endpoints import BatchSettings, EndpointTable
from include.serving.metrics import ServerMetrics
from tests.support.eventually import eventually
from tests.support.models import CLASSES, linear_model, onnx_logits, put_version

pytestmark = pytest.mark.asyncio
BODY = {"inputs": [[1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 0.0, 9.0]]}


class Served:
    """An application and its table, asked without a socket."""

    def __init__(self, table: EndpointTable, client: httpx.AsyncClient) -> None:
        self.table = table
        self.client = client

    async def post(self, path: str = "/toy/invocations", **fields: object) -> httpx.Response:
        return await self.client.post(path, **({"json": BODY} | fields))  # type: ignore[arg-type]


@asynccontextmanager
async def serving(
    store: ObjectStore, *, limits: RequestLimits | None = None, batching: BatchSettings | None = None
) -> AsyncIterator[Served]:
    metrics = ServerMetrics()
    table = EndpointTable(store=store, url="http://test", metrics=metrics, batching=batching)
    app = build_app(table=table, metrics=metrics, limits=limits)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        await table.refresh()
        yield Served(table, client)
        await table.close()


async def test_predictions_with_labels_probabilities_and_the_version(file_store: ObjectStore) -> None:
    request_version(file_store, "toy", put_version(file_store))
    async with serving(file_store) as served:
        answer = await served.post()
    assert answer.status_code == 200
    assert (answer.headers["x-model-version"], answer.headers["x-model-name"]) == ("1", "toy")
    logits = onnx_logits(linear_model(seed=1), np.array(BODY["inputs"], np.float32)).astype(np.float64)
    for row, found in zip(logits, answer.json()["predictions"], strict=True):
        assert found["label"] == CLASSES[row.argmax()]
        shares = np.exp(row) / np.exp(row).sum()
        assert [found["probabilities"][name] for name in CLASSES] == pytest.approx(shares, abs=1e-6)


async def test_huge_logits_do_not_overflow(file_store: ObjectStore) -> None:
    request_version(file_store, "toy", put_version(file_store, model=linear_model(scale=1e4)))
    async with serving(file_store) as served:
        found = (await served.post()).json()["predictions"][0]
    assert sum(found["probabilities"].values()) == pytest.approx(1.0)


async def test_plain_paths_serve_the_only_endpoint(file_store: ObjectStore) -> None:
    async with serving(file_store) as served:
        assert (await served.client.get("/ping")).json() == {"endpoints": {}}
        nothing = await served.post("/invocations")
        assert (nothing.status_code, nothing.headers["retry-after"]) == (503, "1")
        request_version(file_store, "toy", put_version(file_store))
        await served.table.refresh()
        assert (await served.post("/invocations")).json() == (await served.post()).json()
        request_version(file_store, "zoo", put_version(file_store))
        await served.table.refresh()
        several = await served.post("/invocations")
        assert several.status_code == 404
        assert "/toy/invocations, /zoo/invocations" in several.json()["message"]
        assert (await served.client.get("/ping")).json() == {"endpoints": {"toy": "1", "zoo": "1"}}


async def test_ping_of_an_endpoint(file_store: ObjectStore) -> None:
    request_version(file_store, "toy", put_version(file_store))
    async with serving(file_store) as served:
        assert (await served.client.get("/toy/ping")).json() == {"endpoint": "toy", "version": "1"}
        assert (await served.client.get("/zoo/ping")).status_code == 404
        assert (await served.post("/zoo/invocations")).status_code == 404


async def test_bad_bodies_are_told_apart(file_store: ObjectStore) -> None:
    request_version(file_store, "toy", put_version(file_store))
    async with serving(file_store, limits=RequestLimits(max_body_bytes=200)) as served:
        bad = await served.post(json=None, content=b'{"inputs": [[NaN, 1, 2, 3]]}')
        assert (bad.status_code, bad.json()["error_code"]) == (400, "BAD_BODY")
        assert "NaN" in bad.json()["message"]
        missing = await served.post(json={"dataframe_records": [{"height": 1}]})
        assert missing.json()["message"] == "missing columns: weight, colour"
        large = await served.post(json=None, content=b" " * 201)
        assert large.status_code == 413

        async def chunks() -> AsyncIterator[bytes]:
            for _ in range(30):
                yield b" " * 10

        assert (await served.post(json=None, content=chunks())).status_code == 413


async def test_one_bad_request_fails_alone(file_store: ObjectStore) -> None:
    request_version(file_store, "toy", put_version(file_store))
    async with serving(file_store) as served:
        bodies = [BODY, {"inputs": [[1]]}, BODY, {"inputs": "x"}, BODY]
        answers = await asyncio.gather(*(served.post(json=body) for body in bodies))
    assert [answer.status_code for answer in answers] == [200, 400, 200, 400, 200]


async def test_overload_answers_503_with_retry_after(file_store: ObjectStore) -> None:
    request_version(file_store, "toy", put_version(file_store))
    async with serving(file_store, batching=BatchSettings(max_queue=0)) as served:
        full = await served.post()
        assert (full.status_code, full.headers["retry-after"]) == (503, "1")
    async with serving(file_store, limits=RequestLimits(deadline_s=-1)) as served:
        late = await served.post()
        assert (late.status_code, late.json()["error_code"]) == (503, "OVERLOADED")


async def test_a_model_that_raises_is_a_500_without_its_inside(
    file_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    request_version(file_store, "toy", put_version(file_store))
    async with serving(file_store) as served:

        def broken(_rows: object) -> None:
            raise RuntimeError("secret path")

        monkeypatch.setattr(served.table.endpoints["toy"].batcher, "_run", broken)
        answer = await served.post()
    assert answer.status_code == 500
    assert answer.json()["message"] == "the model failed: RuntimeError"


async def test_a_swap_under_load_loses_no_request(file_store: ObjectStore) -> None:
    request_version(file_store, "toy", put_version(file_store, version="1"))
    async with serving(file_store) as served:
        done = asyncio.Event()
        answers: list[httpx.Response] = []

        async def client() -> None:
            while not done.is_set():
                answers.append(await served.post())

        clients = [asyncio.create_task(client()) for _ in range(8)]
        for version in ("2", "3", "4"):
            request_version(file_store, "toy", put_version(file_store, version=version))
            await served.table.refresh()
            expected = len(answers) + 16
            await eventually(lambda expected=expected: len(answers) >= expected)
        done.set()
        await asyncio.gather(*clients)
    assert {answer.status_code for answer in answers} == {200}
    rows = np.array(BODY["inputs"], np.float32)
    labels = {
        seed: [CLASSES[i] for i in onnx_logits(linear_model(seed=int(seed)), rows).argmax(axis=1)] for seed in "1234"
    }
    assert {answer.headers["x-model-version"] for answer in answers} == set("1234")
    for answer in answers:
        found = [prediction["label"] for prediction in answer.json()["predictions"]]
        assert found == labels[answer.headers["x-model-version"]], "answer and version header belong together"


async def test_metrics_count_by_endpoint_and_never_by_made_up_names(file_store: ObjectStore) -> None:
    request_version(file_store, "toy", put_version(file_store))
    async with serving(file_store) as served:
        await served.post()
        await served.post(json={"inputs": [[1]]})
        await served.post("/made-up/invocations")
        text = (await served.client.get("/metrics")).text
    assert 'plimsoll_requests_total{endpoint="toy",status="200"} 1.0' in text
    assert 'plimsoll_requests_total{endpoint="toy",status="400"} 1.0' in text
    assert 'plimsoll_errors_total{endpoint="toy",reason="bad_body"} 1.0' in text
    assert 'plimsoll_batch_rows_sum{endpoint="toy"} 2.0' in text
    assert 'plimsoll_request_seconds_count{endpoint="toy"} 2.0' in text
    assert 'plimsoll_model_loaded{endpoint="toy",version="1"} 1.0' in text
    assert "process_cpu_seconds_total" in text
    assert "made-up" not in text
