from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from include.config.job_messages import RegisterResult
from include.core.errors import StoreError, UserError
from include.core.store import ObjectStore
from include.jobs import register
from include.registry.mlflow_registry import MlflowRegistry
from include.registry.references import live_references


@pytest.fixture
def run_register(registry_uri: str, toy_request: Callable, context_for: Callable) -> Callable[..., RegisterResult]:
    def run(store: ObjectStore, *, drop: tuple[str, ...] = (), **fields: object) -> RegisterResult:
        request = toy_request("register", store, **fields)
        request = request.model_copy(update=dict.fromkeys(drop))
        return register.run(context_for(request, store, mlflow_uri=registry_uri))

    return run


def test_the_version_is_the_challenger_with_all_that_led_to_it(
    any_store: ObjectStore, run_register: Callable, registry: MlflowRegistry
) -> None:
    result = run_register(any_store, interactive_uri=any_store.uri("runs/picture.png"), plan={"offer": "local"})
    assert (result.model_name, result.version, result.created, result.alias) == ("toy", "1", True, "challenger")
    assert registry.aliases("toy") == {"challenger": "1"}
    client = registry._client
    names = {item.path for item in client.list_artifacts(result.mlflow_run_id)}
    assert names >= {"recipe.json", "verdict.json", "scorecards.json", "pareto.png", "pareto.html", "plan.json"}
    version = registry.get("toy", "1")
    assert version.lineage is not None
    assert version.lineage.sha256 == result.sha256
    assert version.lineage.checkpoint_uri == any_store.uri("runs/checkpoint")
    assert client.get_run(result.mlflow_run_id).data.metrics["accuracy"] == 1.0
    assert {item.model_uri for item in live_references(registry)} == {version.lineage.model_uri}


def test_a_second_time_finds_the_version(
    file_store: ObjectStore, run_register: Callable, registry: MlflowRegistry
) -> None:
    first, second = run_register(file_store), run_register(file_store)
    assert (first.created, second.created) == (True, False)
    assert (first.version, first.mlflow_run_id) == (second.version, second.mlflow_run_id)
    assert len(registry.versions("toy")) == 1


def test_a_version_whose_artefact_is_gone_refers_to_the_new_copy(
    file_store: ObjectStore, run_register: Callable, registry: MlflowRegistry
) -> None:
    run_register(file_store)
    version = registry.get("toy", "1")
    assert version.lineage is not None
    alive = version.lineage.model_uri
    for gone in (file_store.uri("nowhere/model.onnx"), "s3://another-store/model.onnx"):
        registry._client.set_model_version_tag("toy", "1", "plimsoll.model_uri", gone)
        assert not run_register(file_store).created
        version = registry.get("toy", "1")
        assert version.lineage is not None
        assert version.lineage.model_uri == alive


@pytest.mark.parametrize("missing", ["verdict", "dataset", "checkpoint_uri"])
def test_an_incomplete_request_is_refused(file_store: ObjectStore, run_register: Callable, missing: str) -> None:
    with pytest.raises(UserError, match=missing):
        run_register(file_store, drop=(missing,))


def test_missing_inputs_are_named(file_store: ObjectStore, run_register: Callable) -> None:
    with pytest.raises(UserError, match="weights_digest"):
        run_register(file_store, weights_digest=None)


def test_a_missing_picture_is_named(file_store: ObjectStore, run_register: Callable) -> None:
    with pytest.raises(StoreError, match=r"gone\.png"):
        run_register(file_store, picture_uri=file_store.uri("gone.png"))


def test_the_documents_are_the_runs_own(file_store: ObjectStore, run_register: Callable, registry, tmp_path) -> None:
    result = run_register(file_store)
    path = registry._client.download_artifacts(result.mlflow_run_id, "verdict.json", str(tmp_path))
    assert json.loads(Path(path).read_text())["chosen"] == "static-int8"
