import hashlib

import pytest

from include.compression.artefact import ArtefactFolder
from include.compression.source import LIBRARIES, Source
from include.core.contracts.dataset import DatasetManifest
from include.core.contracts.recipe import ExportStep, QuantizeStep, Recipe
from include.core.json_codec import from_json
from tests.support.jobs import workload

RECIPE = Recipe(name="static-int8", steps=(ExportStep(), QuantizeStep()))


@pytest.fixture(scope="module")
def source():
    manifest = DatasetManifest(
        fingerprint="f1", task="classification", label="y", classes=("a", "b"), features=(), input_shape=(2,), shards=()
    )
    return Source(
        workload=workload(), manifest=manifest, weights_uri="file:///w", weights_digest="d1", checkpoint_uri="file:///c"
    )


@pytest.fixture
def folder(any_store):
    return ArtefactFolder(store=any_store, prefix="runs/w/r/candidates/h")


@pytest.fixture
def commit(folder, source):
    return lambda model: folder.commit(model, recipe=RECIPE, source=source, parameters=5)


def test_the_candidate_describes_the_file_in_the_store(folder, commit, any_store):
    candidate = commit(b"model")
    assert any_store.get(any_store.key_of(candidate.model_uri)) == b"model"
    assert candidate.sha256 == hashlib.sha256(b"model").hexdigest()
    assert (candidate.recipe, candidate.size_bytes, candidate.parameters) == ("static-int8", 5, 5)
    assert folder.find() == candidate


def test_the_recipe_document_says_how_to_make_it_again(folder, commit, any_store, source):
    commit(b"model")
    document = any_store.get_json(folder.recipe_key)
    assert from_json(Recipe, document["recipe"]) == RECIPE
    assert document["source"]["checkpoint_uri"] == "file:///c"
    assert document["source"]["weights_digest"] == "d1"
    assert document["dataset_fingerprint"] == "f1"
    assert set(document["libraries"]) == set(LIBRARIES)


def test_a_model_without_its_document_is_not_a_candidate_and_is_adopted(folder, commit, any_store):
    any_store.put(folder.model_key, b"left by an attempt that died")
    assert folder.find() is None
    assert commit(b"made again").sha256 == hashlib.sha256(b"left by an attempt that died").hexdigest()


def test_a_second_attempt_gets_what_the_first_one_committed(folder, commit, any_store):
    first = commit(b"model")
    assert commit(b"other bytes") == first
    assert any_store.get(folder.model_key) == b"model"


def test_a_damaged_model_is_found_out_and_replaced(folder, commit, any_store):
    commit(b"model")
    any_store.put(folder.model_key, b"mOdel")
    assert folder.find() is None
    assert commit(b"better").sha256 == hashlib.sha256(b"better").hexdigest()
    assert folder.find() is not None
