import hashlib
from dataclasses import replace

import onnxruntime
import pytest

from include.compression.apply import Workshop
from include.compression.source import Source
from include.config.recipes import PRESETS
from include.core.contracts.recipe import DistillStep, ExportStep, PruneStep, QuantizeStep, Recipe
from include.core.errors import StoreError, UserError
from include.core.store import ObjectStore
from include.data.encoding import load_split
from tests.support.trained import train_quickly

SHORT = {
    name: Recipe(name=name, steps=tuple(DistillStep(epochs=2) if s.kind == "distill" else s for s in steps))
    for name, steps in PRESETS.items()
}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return ObjectStore(f"file://{tmp_path_factory.mktemp('store')}")


@pytest.fixture(scope="module")
def source(store):
    trained = train_quickly(store)
    return Source(
        workload=trained.order,
        manifest=trained.manifest,
        weights_uri=trained.weights_uri,
        weights_digest=trained.weights_digest,
        checkpoint_uri=store.uri("runs/test/checkpoints/step-9-1/COMMIT.json"),
    )


def workshop(store, scratch, run="runs/w/r", seen=None):
    return Workshop(
        store=store,
        run_prefix=run,
        scratch=scratch,
        progress=lambda fraction, doing: None if seen is None else seen.append((fraction, doing)),
    )


@pytest.fixture(scope="module")
def progress():
    """What each recipe of `made` reported: name -> (share, text) in order."""
    return {name: [] for name in SHORT}


@pytest.fixture(scope="module")
def made(store, source, progress, tmp_path_factory):
    """All presets in their usual order: name -> (candidate, cached steps)."""
    scratch = tmp_path_factory.mktemp("scratch")
    return {name: workshop(store, scratch, seen=progress[name]).apply(recipe, source) for name, recipe in SHORT.items()}


def accuracy(store, source, candidate):
    x, y = load_split(store, source.manifest, "validation")
    session = onnxruntime.InferenceSession(store.get(store.key_of(candidate.model_uri)))
    return float((session.run(["logits"], {"x": x})[0].argmax(1) == y).mean())


def test_int8_recipes_are_smaller_and_pruned_ones_have_fewer_parameters(made):
    sizes = {name: candidate.size_bytes for name, (candidate, _) in made.items()}
    assert sizes["static-int8"] < 0.4 * sizes["onnx-fp32"]
    assert sizes["pruned-distilled-fp32"] < 0.5 * sizes["onnx-fp32"]
    assert sizes["pruned-distilled-int8"] < min(sizes["static-int8"], sizes["pruned-distilled-fp32"])
    parameters = {name: candidate.parameters for name, (candidate, _) in made.items()}
    assert parameters["static-int8"] == parameters["onnx-fp32"] > 2 * parameters["pruned-distilled-int8"]


def test_all_candidates_answer_far_better_than_chance(made, store, source):
    assert {name for name, (candidate, _) in made.items() if accuracy(store, source, candidate) < 0.7} == set()


def test_later_recipes_find_the_prefix_of_earlier_ones(made):
    assert {name: cached for name, (_, cached) in made.items()} == {
        "onnx-fp32": 0, "static-int8": 1, "dynamic-int8": 1, "weight-int8": 1, "weight-int4": 1,
        "factorized-fp32": 0, "pruned-distilled-fp32": 0, "pruned-distilled-int8": 3,
    }  # fmt: skip


def test_another_run_finds_the_prefixes_and_makes_the_same_bytes(made, store, source, tmp_path):
    shop = workshop(store, tmp_path, run="runs/w/later")
    for name, recipe in SHORT.items():
        candidate, cached = shop.apply(recipe, source)
        assert cached == sum(step.kind != "quantize" for step in recipe.steps)
        assert candidate.sha256 == made[name][0].sha256
        assert "/later/candidates/" in candidate.model_uri


def test_a_repeated_attempt_finds_its_candidate(made, store, source, tmp_path):
    recipe = SHORT["pruned-distilled-int8"]
    assert workshop(store, tmp_path).apply(recipe, source) == (made[recipe.name][0], 4)


def test_recovered_weights_are_reused_when_only_the_export_differs(made, store, source, tmp_path):
    steps = SHORT["pruned-distilled-fp32"].steps
    recipe = Recipe(name="newer-opset", steps=(*steps[:2], ExportStep(opset=21)))
    seen = []
    candidate, cached = workshop(store, tmp_path, seen=seen).apply(recipe, source)
    assert cached == 2
    assert not [doing for _, doing in seen if "distill" in doing]
    one, two = (accuracy(store, source, c) for c in (candidate, made["pruned-distilled-fp32"][0]))
    assert one == two


def test_a_damaged_prefix_is_made_again_and_the_result_is_the_same(made, store, source, tmp_path):
    sha256 = made["onnx-fp32"][0].sha256
    key = next(key for key, _ in store.list("prefixes") if sha256 in key)
    content = bytearray(store.get(key))
    content[-1] ^= 1
    store.put(key, bytes(content))
    candidate, cached = workshop(store, tmp_path, run="runs/w/repaired").apply(SHORT["onnx-fp32"], source)
    assert cached == 0
    assert candidate.sha256 == sha256
    assert hashlib.sha256(store.get(key)).hexdigest() == sha256


def test_a_recipe_in_the_wrong_order_is_refused_before_anything_is_done(store, source, tmp_path):
    wrong = Recipe(name="wrong", steps=(ExportStep(), PruneStep(), QuantizeStep()))
    with pytest.raises(UserError, match="recipe wrong"):
        workshop(store, tmp_path, run="runs/w/wrong").apply(wrong, source)
    assert list(store.list("runs/w/wrong")) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weights_digest": "0" * 64}, "not those of the training"),
        ({"weights_uri": "runs/test/nothing.safetensors"}, "weights are missing"),
        ({"weights_uri": "runs/test/text.safetensors"}, "do not fit the model"),
    ],
)
def test_weights_that_are_not_those_of_the_training_are_refused(store, source, tmp_path, change, message):
    store.put("runs/test/text.safetensors", b"no tensors here")
    if "weights_uri" in change:
        change = {"weights_uri": store.uri(change["weights_uri"]), "weights_digest": "1" * 64}
    with pytest.raises(StoreError, match=message):
        workshop(store, tmp_path, run="runs/w/bad").apply(SHORT["onnx-fp32"], replace(source, **change))


def test_progress_grows_and_says_what_is_being_done(made, progress):
    shares = [fraction for fraction, _ in progress["pruned-distilled-fp32"]]
    assert shares == sorted(shares)
    assert 0 < shares[0] < shares[-1] < 1
    assert [doing.split(",")[0] for _, doing in progress["pruned-distilled-fp32"]] == [
        "prune", "distill epoch 1/2", "distill epoch 2/2", "export",
    ]  # fmt: skip
    assert [doing for _, doing in progress["pruned-distilled-int8"]] == ["quantize"]
