"""The protect set as a command: URIs on stdout, or exit 1 and no URIs at all."""

from __future__ import annotations

import json

import pytest

from include.registry import protect_set
from include.registry.mlflow_registry import MlflowRegistry
from tests.support.registrations import order


@pytest.fixture(autouse=True)
def settings(registry_uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLIMSOLL_MLFLOW_URI", registry_uri)


def test_it_prints_what_versions_refer_to(registry: MlflowRegistry, capsys: pytest.CaptureFixture[str]) -> None:
    registration = order()
    registry.register(registration)
    assert protect_set.main(["toy"]) == 0
    printed = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert set(printed) >= {registration.lineage.model_uri, registration.lineage.checkpoint_uri}


def test_a_registry_without_a_served_model_is_the_wrong_one(
    registry: MlflowRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.register(order())
    assert protect_set.main(["toy", "served-elsewhere"]) == 1
    answer = capsys.readouterr()
    assert "served-elsewhere" in answer.err
    assert answer.out == ""
