from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest

from include.config.job_messages import DeployResult, JobRequest
from include.core.errors import GateError, PlimsollError, UserError
from include.core.store import ObjectStore
from include.jobs import deploy, register
from include.jobs.context import JobContext
from include.registry.mlflow_registry import MlflowRegistry
from include.serving.desired import read_actual, read_desired
from include.serving.rollout import require_server
from tests.support.models import linear_model

pytestmark = pytest.mark.integration


@dataclass
class Toy:
    """A store, a registry and a running server, and jobs on them."""

    store: ObjectStore
    registry_uri: str
    url: str
    request: Callable[..., JobRequest]
    context: Callable[..., JobContext]

    def registered(self, **fields: Any) -> dict[str, Any]:
        return register.run(self._context("register", **fields)).model_dump(mode="json")

    def deploy_context(self, **fields: Any) -> JobContext:
        return self._context("deploy", registered=self.registered(**fields), **fields)

    def deploy(self, **fields: Any) -> DeployResult:
        return deploy.run(self.deploy_context(**fields))

    def _context(self, kind: str, **fields: Any) -> JobContext:
        request = self.request(kind, self.store, **fields)
        return self.context(request, self.store, mlflow_uri=self.registry_uri, serving_url=self.url)

    def ask(self) -> tuple[str, Any]:
        body = {"dataframe_records": [{"height": 1.0, "weight": None, "colour": "black"}]}
        with urllib.request.urlopen(f"{self.url}/toy/invocations", json.dumps(body).encode()) as answer:
            return answer.headers["X-Model-Version"], json.load(answer)


class ScoredHere:
    """Stands for the fresh process, which costs seconds: the same registered version, loaded in this one."""

    def __init__(self, context: JobContext, order: deploy._Order) -> None:
        self._registry = MlflowRegistry(context.settings.mlflow_uri)
        self._order = order

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def logits(self) -> np.ndarray:
        score = self._registry.load(self._order.served.model_name, self._order.served.version)
        return np.concatenate([score(row[None]) for row in self._order.rows])


@pytest.fixture
def toy(fresh_toy: Toy, monkeypatch: pytest.MonkeyPatch) -> Toy:
    monkeypatch.setattr(deploy, "_FreshProcess", ScoredHere)
    return fresh_toy


@pytest.fixture
def fresh_toy(file_store, registry_uri, model_server, toy_request, context_for) -> Toy:
    return Toy(file_store, registry_uri, model_server(file_store), toy_request, context_for)


def test_the_version_is_served_tested_and_made_champion(toy: Toy) -> None:
    result = toy.deploy()
    assert (result.version, result.previous, result.rolled_back, result.agrees) == ("1", None, False, True)
    assert result.agreement_rows == 120
    assert result.sample["request"]["dataframe_records"][0].keys() == {"height", "weight", "colour"}
    assert result.sample["predictions"][0]["label"] in {"cat", "dog", "eel"}
    assert toy.ask()[0] == "1"
    assert MlflowRegistry(toy.registry_uri).aliases("toy") == {"champion": "1"}
    desired = read_desired(toy.store, "toy")
    assert desired is not None
    assert desired.verified


def test_a_second_version_keeps_the_first_as_previous(toy: Toy) -> None:
    toy.deploy()
    result = toy.deploy(model=linear_model(seed=1))
    assert (result.version, result.previous) == ("2", "1")
    desired = read_desired(toy.store, "toy")
    assert desired is not None
    assert desired.previous is not None
    assert desired.previous.version == "1"
    assert toy.ask()[0] == "2"


def test_a_version_that_answers_wrong_is_rolled_back(toy: Toy) -> None:
    toy.deploy()
    with pytest.raises(GateError, match=r"accuracy.*version 1 serves again"):
        toy.deploy(model=linear_model(seed=1), truth=linear_model(seed=5))
    assert toy.ask()[0] == "1"
    assert MlflowRegistry(toy.registry_uri).aliases("toy")["champion"] == "1"


def test_a_first_version_that_fails_leaves_nothing_served(toy: Toy) -> None:
    with pytest.raises(GateError, match="serves nothing"):
        toy.deploy(truth=linear_model(seed=5))
    assert read_desired(toy.store, "toy") is None
    assert MlflowRegistry(toy.registry_uri).by_alias("toy", "champion") is None


def test_a_corrupt_artefact_is_rolled_back_and_the_reason_is_told(toy: Toy) -> None:
    toy.deploy()
    context = toy.deploy_context(model=linear_model(seed=1))
    uri = context.request.verdict.scorecards[0].model_uri
    toy.store.put(toy.store.key_of(uri), b"garbage")
    with pytest.raises(GateError, match=r"artefact is corrupt.*version 1 serves again"):
        deploy.run(context)
    assert toy.ask()[0] == "1"


def test_an_endpoint_that_disagrees_with_the_registered_version_is_rolled_back(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ScoredHere, "logits", lambda self: np.zeros((len(self._order.rows), 3), np.float32))
    with pytest.raises(GateError, match="120 of 120 rows differ"):
        toy.deploy()


def test_a_version_that_the_registry_cannot_load_is_rolled_back(fresh_toy: Toy, tmp_path: Path) -> None:
    context = fresh_toy.deploy_context()
    for copy in (tmp_path / "artifacts").rglob("model.onnx"):
        copy.write_bytes(b"garbage")
    with pytest.raises(PlimsollError, match=r"cannot be scored.*serves nothing"):
        deploy.run(context)
    assert read_desired(fresh_toy.store, "toy") is None


def test_deploying_the_same_version_again_keeps_the_way_back(toy: Toy) -> None:
    toy.deploy()
    toy.deploy(model=linear_model(seed=1))
    result = toy.deploy(model=linear_model(seed=1))
    assert (result.version, result.previous) == ("2", "1")
    desired = read_desired(toy.store, "toy")
    assert desired is not None
    assert desired.previous is not None
    assert desired.previous.version == "1"


def test_without_a_server_the_error_says_what_to_start(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deploy, "require_server", partial(require_server, limit_s=0.2))
    toy.url = "http://127.0.0.1:9"
    with pytest.raises(UserError, match=r"make run.*include\.serving\.server"):
        toy.deploy()
    assert read_desired(toy.store, "toy") is None


def test_a_version_that_is_not_the_chosen_artefact_is_refused(toy: Toy) -> None:
    registered = toy.registered()
    context = toy._context("deploy", registered=registered, model=linear_model(seed=1))
    with pytest.raises(UserError, match="not the artefact that was chosen"):
        deploy.run(context)


@pytest.mark.long
def test_as_a_process_with_the_store_on_s3_and_a_registry_server(
    s3_store, mlflow_server, model_server, toy_request, run_job, settings_for
) -> None:
    url = model_server(s3_store)
    settings = settings_for(s3_store, mlflow_uri=mlflow_server, serving_url=url)
    code, registered, _, log = run_job("register", toy_request("register", s3_store), s3_store, settings=settings)
    assert code == 0, log
    assert (registered["version"], registered["created"], registered["alias"]) == ("1", True, "challenger")
    request = toy_request("deploy", s3_store, registered=registered)
    code, result, _, log = run_job("deploy", request, s3_store, settings=settings)
    assert code == 0, log
    assert (result["version"], result["agrees"], result["url"]) == ("1", True, f"{url}/toy/invocations")
    actual = read_actual(s3_store, "toy")
    assert actual is not None
    assert (actual.state, actual.version) == ("serving", "1")
