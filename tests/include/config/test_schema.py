"""The schema for editors is fresh and agrees with the loader."""

from __future__ import annotations

import json

import yaml

from include.config.schema import SCHEMA_FILE, schema_text
from include.config.settings import REPO
from include.config.workload import Workload


def test_the_committed_schema_is_fresh() -> None:
    assert SCHEMA_FILE.read_text(encoding="utf-8") == schema_text()


def test_keys_the_loader_fills_in_are_not_required() -> None:
    schema = json.loads(schema_text())
    raw = {"name": "n", "data": {"source": {"kind": "digits"}, "label": "digit"}, "model": {"factory": "cnn"}}
    Workload.model_validate(raw)
    assert sorted(schema["required"]) == sorted(raw)


def test_shipped_workloads_use_only_keys_of_the_schema() -> None:
    schema = json.loads(schema_text())
    for path in (REPO / "include" / "workloads").glob("*.yaml"):
        assert yaml.safe_load(path.read_text()).keys() <= schema["properties"].keys()
