from __future__ import annotations

from pathlib import Path

import pytest

from include.registry.mlflow_connection import tags_of
from include.registry.mlflow_registry import MlflowRegistry
from include.registry.references import live_references
from include.registry.versions import Lineage, RegistryError

LINEAGE = {
    "model_uri": "file:///store/model.onnx",
    "manifest_uri": "file:///store/manifest.json",
    "data_fingerprint": "f",
    "code_version": "c",
    "checkpoint_uri": "file:///store/checkpoint",
    "weights_digest": "w",
    "recipe": "onnx-fp32",
}


def add_version(registry: MlflowRegistry, name: str, sha256: str) -> str:
    """A version without an artefact: references are about tags."""
    client = registry._client
    tags = tags_of(Lineage(sha256=sha256, **LINEAGE))
    return str(client.create_model_version(name, "file:///nowhere", tags=tags).version)


@pytest.fixture
def filled(registry: MlflowRegistry) -> MlflowRegistry:
    for name in ("toy", "other"):
        registry._client.create_registered_model(name)
    add_version(registry, "toy", "a")
    add_version(registry, "toy", "b")
    add_version(registry, "toy", "c")
    add_version(registry, "other", "d")
    registry._client.delete_model_version("toy", "2")
    registry._client.create_model_version("toy", "file:///by-hand")
    return registry


def test_every_version_that_is_left_counts(filled: MlflowRegistry) -> None:
    found = live_references(filled, expected=["toy"])
    assert {(item.model_name, item.version, item.sha256) for item in found} == {
        ("toy", "1", "a"),
        ("toy", "3", "c"),
        ("other", "1", "d"),
    }
    assert {item.checkpoint_uri for item in found} == {"file:///store/checkpoint"}


def test_a_registry_file_that_is_absent_is_not_an_empty_registry(tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match="does not exist"):
        live_references(MlflowRegistry(f"sqlite:///{tmp_path / 'gone.db'}"))
    assert not (tmp_path / "gone.db").exists()


def test_a_server_that_does_not_answer_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(RegistryError, match="cannot be read"):
        live_references(MlflowRegistry("http://127.0.0.1:9"))


def test_a_registry_without_an_expected_model_raises(registry: MlflowRegistry) -> None:
    assert live_references(registry) == frozenset()
    with pytest.raises(RegistryError, match="digits"):
        live_references(registry, expected=["digits"])


def test_a_version_that_cannot_be_read_raises(filled: MlflowRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    read = filled._client.get_model_version

    def broken(name: str, version: str) -> object:
        if (name, version) == ("toy", "3"):
            raise ConnectionError("gone")
        return read(name, version)

    monkeypatch.setattr(filled._client, "get_model_version", broken)
    with pytest.raises(RegistryError, match="gone"):
        live_references(filled)


def test_an_alias_to_a_version_that_is_not_found_raises(
    filled: MlflowRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filled, "aliases", lambda _name: {"champion": "9"})
    with pytest.raises(RegistryError, match="champion"):
        live_references(filled)


def test_a_version_with_half_of_its_tags_raises(filled: MlflowRegistry) -> None:
    filled._client.delete_model_version_tag("toy", "3", "plimsoll.checkpoint_uri")
    with pytest.raises(RegistryError, match="checkpoint_uri"):
        live_references(filled)
