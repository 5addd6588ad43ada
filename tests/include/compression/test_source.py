from dataclasses import replace

import pytest

from include.compression.source import Source, library_versions
from include.core.contracts.dataset import DatasetManifest
from include.core.contracts.recipe import ExportStep, QuantizeStep, Recipe
from tests.support.jobs import workload

RECIPE = Recipe(name="int8", steps=(ExportStep(), QuantizeStep()))


@pytest.fixture
def source():
    manifest = DatasetManifest(
        fingerprint="f1", task="classification", label="y", classes=("a", "b"), features=(), input_shape=(2,), shards=()
    )
    return Source(
        workload=workload(), manifest=manifest, weights_uri="file:///w", weights_digest="d1", checkpoint_uri="file:///c"
    )


def test_recipe_hash_follows_recipe_weights_and_data_only(source):
    known = source.recipe_hash(RECIPE)
    assert replace(source, checkpoint_uri="file:///other", weights_uri="s3://b/w").recipe_hash(RECIPE) == known
    others = {
        replace(source, weights_digest="d2").recipe_hash(RECIPE),
        replace(source, manifest=replace(source.manifest, fingerprint="f2")).recipe_hash(RECIPE),
        source.recipe_hash(replace(RECIPE, name="other")),
        source.recipe_hash(replace(RECIPE, steps=(ExportStep(), QuantizeStep(per_channel=False)))),
    }
    assert len(others | {known}) == 5


def test_origin_follows_what_training_settings_do_to_a_prefix(source):
    assert source.origin() == replace(source, checkpoint_uri="file:///other").origin()
    assert source.origin() != replace(source, workload=workload(training={"seed": 8})).origin()
    assert source.origin() != replace(source, workload=workload(training={"batch_size": 8})).origin()
    assert source.origin() != replace(source, workload=workload(model={"arguments": {"width": 8}})).origin()


def test_library_versions_are_those_installed():
    import onnx

    assert library_versions()["onnx"] == onnx.__version__
