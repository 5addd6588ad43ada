from __future__ import annotations

import dataclasses
import hashlib
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from include.config.settings import REPO
from include.core.errors import UserError
from include.registry.mlflow_registry import MlflowRegistry
from include.registry.references import live_references
from include.registry.versions import RegistryError, RunKey
from tests.support.models import WIDTH, linear_model, onnx_logits
from tests.support.registrations import RUN, order


def client(registry: MlflowRegistry):
    return registry._client


def test_a_version_carries_its_lineage_and_its_documents(registry: MlflowRegistry) -> None:
    registered = registry.register(order())
    assert registered.created
    assert registered.version.version == "1"
    assert registered.version.lineage == order().lineage
    run = registered.version.mlflow_run_id
    assert {item.path for item in client(registry).list_artifacts(run)} >= {"verdict.json", "pareto.png"}
    found = client(registry).get_run(run)
    assert found.data.metrics["accuracy"] == 0.97
    assert found.data.tags["plimsoll.run_id"] == RUN.run_id
    assert client(registry).get_experiment(found.info.experiment_id).name == "toy"


def test_the_registered_copy_answers_like_the_artefact_and_has_its_bytes(
    registry: MlflowRegistry, tmp_path: Path
) -> None:
    registered = registry.register(order()).version
    rows = np.random.default_rng(1).standard_normal((7, WIDTH)).astype(np.float32)
    assert np.array_equal(registry.load("toy", registered.version)(rows), onnx_logits(linear_model(), rows))
    copies = list((tmp_path / "artifacts").rglob("model.onnx"))
    assert [hashlib.sha256(copy.read_bytes()).hexdigest() for copy in copies] == [order().lineage.sha256]


def test_the_same_digest_is_found_again_also_by_another_run(registry: MlflowRegistry) -> None:
    first = registry.register(order())
    again = registry.register(order())
    later = registry.register(order(run=RunKey(workload="toy", run_id="another")))
    assert (again.created, later.created) == (False, False)
    assert first.version == again.version == later.version
    assert len(registry.versions("toy")) == 1
    assert registry.register(order(seed=1)).version.version == "2"


def test_bytes_that_do_not_have_the_digest_are_refused(registry: MlflowRegistry) -> None:
    with pytest.raises(RegistryError, match="sha256"):
        registry.register(dataclasses.replace(order(), model=b"something else"))


def test_a_kill_between_logging_and_registering_leaves_one_version(registry: MlflowRegistry, registry_uri: str) -> None:
    code = (
        "import os, signal, sys\n"
        "from include.registry.mlflow_registry import MlflowRegistry\n"
        "from tests.support.registrations import order\n"
        "MlflowRegistry._create_version = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "MlflowRegistry(sys.argv[1]).register(order())\n"
    )
    died = subprocess.run([sys.executable, "-c", code, registry_uri], cwd=REPO, capture_output=True, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr.decode()
    experiment = client(registry).get_experiment_by_name("toy").experiment_id
    assert len(client(registry).search_logged_models([experiment])) == 1, "it died after logging"
    assert registry.model_names() == ["toy"]
    assert registry.versions("toy") == []
    registered = registry.register(order())
    assert registered.created
    assert len(registry.versions("toy")) == 1
    assert len(client(registry).search_logged_models([experiment])) == 1
    assert len(client(registry).search_runs([experiment])) == 1


def test_two_registrations_at_once_make_one_version(
    registry: MlflowRegistry, registry_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    barrier = threading.Barrier(2, timeout=30)
    create = MlflowRegistry._create_version

    def together(self: MlflowRegistry, *arguments: object) -> object:
        barrier.wait()
        return create(self, *arguments)

    monkeypatch.setattr(MlflowRegistry, "_create_version", together)
    answers = []

    def register(run_id: str) -> None:
        answers.append(MlflowRegistry(registry_uri).register(order(run=RunKey(workload="toy", run_id=run_id))))

    threads = [threading.Thread(target=register, args=(f"run-{number}",)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [answer.version.version for answer in answers] == ["1", "1"]
    assert sorted(answer.created for answer in answers) == [False, True]
    assert [version.version for version in registry.versions("toy")] == ["1"]


def test_promotion_keeps_the_previous_champion(registry: MlflowRegistry) -> None:
    first, second = (registry.register(order(seed=seed)).version.version for seed in (0, 1))
    registry.challenge("toy", first)
    assert registry.promote("toy", first) is None
    assert registry.aliases("toy") == {"champion": first}
    registry.challenge("toy", second)
    assert registry.aliases("toy") == {"champion": first, "challenger": second}
    assert registry.promote("toy", second) == first
    assert registry.promote("toy", second) == first, "repeating it must not lose the way back"
    assert registry.aliases("toy") == {"champion": second, "previous": first}


def test_an_alias_that_does_not_stick_is_an_error(registry: MlflowRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    version = registry.register(order()).version.version
    monkeypatch.setattr(client(registry), "set_registered_model_alias", lambda *_: None)
    with pytest.raises(RegistryError, match="champion"):
        registry.promote("toy", version)


def test_absent_versions_and_aliases(registry: MlflowRegistry) -> None:
    with pytest.raises(UserError, match="no such registered version"):
        registry.get("toy", "1")
    assert registry.by_alias("toy", "champion") is None
    registry.register(order())
    assert registry.by_alias("toy", "champion") is None


def test_figures_go_to_the_run_that_registered(registry: MlflowRegistry) -> None:
    run = registry.register(order()).version.mlflow_run_id
    assert registry.runs.log_metrics(RUN, metrics={"usd": 0.25}, tags={"usd_method": "measured"}) == run
    found = client(registry).get_run(run).data
    assert (found.metrics["usd"], found.tags["usd_method"]) == (0.25, "measured")


def test_figures_of_a_run_that_registered_nothing_get_a_run(registry: MlflowRegistry) -> None:
    run = RunKey(workload="toy", run_id="failed-early")
    first = registry.runs.log_metrics(run, metrics={"usd": 0.25})
    assert registry.runs.log_metrics(run, metrics={"gco2e": 3.0}) == first


def test_a_version_can_be_pointed_at_another_copy(registry: MlflowRegistry) -> None:
    version = registry.register(order()).version
    moved = dataclasses.replace(order().lineage, model_uri="file:///store/copy/model.onnx")
    assert registry.repoint(version, moved).lineage == moved


@pytest.mark.integration
def test_over_http_everything_is_the_same(mlflow_server: str) -> None:
    registry = MlflowRegistry(mlflow_server)
    name = "over-http"
    with pytest.raises(UserError, match="no such registered version"):
        registry.get(name, "1")
    assert registry.by_alias(name, "champion") is None
    first = registry.register(order(model_name=name))
    again = registry.register(order(model_name=name, run=RunKey(workload="toy", run_id="another")))
    assert (first.created, again.created, again.version) == (True, False, first.version)
    registry.challenge(name, "1")
    assert registry.promote(name, "1") is None
    assert registry.aliases(name) == {"champion": "1"}
    rows = np.ones((2, WIDTH), np.float32)
    assert np.array_equal(registry.load(name, "1")(rows), onnx_logits(linear_model(), rows))
    registry.register(order(seed=1, model_name=name))
    client(registry).delete_model_version(name, "1")
    found = live_references(registry, expected=[name])
    assert {item.version for item in found if item.model_name == name} == {"2"}
    assert registry.runs.log_metrics(RUN, metrics={"usd": 1.0}) == first.version.mlflow_run_id
