import pytest

from include.config.job_messages import CompressResult, EvaluateResult
from include.core.contracts.recipe import DistillStep, ExportStep, PruneStep, QuantizeStep, Recipe
from include.data.prepare import prepare_dataset
from tests.support.jobs import workload
from tests.support.trained import train_quickly

STEPS = (PruneStep(), DistillStep(epochs=3), ExportStep(), QuantizeStep())


@pytest.fixture
def without_torch(tmp_path):
    """A work folder in which importing torch fails: the folder comes first on the job's import path."""
    folder = tmp_path / "no-torch"
    folder.mkdir()
    (folder / "torch.py").write_text("raise ImportError('this job must do without torch')\n")
    return folder


@pytest.mark.integration
def test_compress_and_measure_with_torch_only_where_it_is_needed(any_store, run_job, job_request, without_torch):
    trained = train_quickly(any_store)

    def compress(recipe, job_dir=None):
        request = job_request(
            "compress",
            order=trained.order,
            recipe=recipe,
            dataset=trained.dataset,
            checkpoint_uri=any_store.uri("runs/test/checkpoints/step-9-1/COMMIT.json"),
            inputs=trained.inputs,
        )
        done = run_job("compress", request, any_store, job_dir)
        assert done.exit_code == 0, done.log
        return CompressResult.model_validate(done.result)

    full = compress(Recipe(name="pruned-distilled-int8", steps=STEPS))
    assert full.cached_steps == 0
    stored = any_store.size(any_store.key_of(full.candidate.model_uri))
    assert stored == full.candidate.size_bytes

    float_only = compress(Recipe(name="pruned-distilled-fp32", steps=STEPS[:3]), without_torch)
    assert float_only.cached_steps == 3
    coarse = Recipe(name="per-tensor", steps=(*STEPS[:3], QuantizeStep(per_channel=False)))
    per_tensor = compress(coarse, without_torch)
    assert per_tensor.cached_steps == 3
    assert per_tensor.candidate.size_bytes < full.candidate.size_bytes < float_only.candidate.size_bytes

    request = job_request("evaluate", order=trained.order, candidate=full.candidate, dataset=trained.dataset)
    measured = run_job("evaluate", request, any_store, without_torch)
    assert measured.exit_code == 0, measured.log
    card = EvaluateResult.model_validate(measured.result).scorecard
    assert (card.sha256, card.rows) == (full.candidate.sha256, trained.dataset.rows["test"])
    assert 0.5 < card.accuracy_low < card.accuracy < card.accuracy_high


@pytest.mark.integration
@pytest.mark.parametrize(
    ("recipe", "inputs", "message"),
    [
        (Recipe(name="backwards", steps=STEPS[::-1]), {"weights_uri": "u", "weights_digest": "d"}, "recipe backwards"),
        (None, {"weights_uri": "u", "weights_digest": "d"}, "no recipe"),
        (Recipe(name="onnx-fp32", steps=STEPS[2:3]), {"weights_digest": "d"}, "no inputs.weights_uri"),
    ],
)
def test_a_request_that_cannot_be_served_ends_with_64(file_store, run_job, job_request, recipe, inputs, message):
    order = workload()
    dataset = prepare_dataset(store=file_store, data=order.data, roots=()).ref
    request = job_request(
        "compress", order=order, recipe=recipe, dataset=dataset, checkpoint_uri="file:///c", inputs=inputs
    )
    done = run_job("compress", request, file_store)
    assert done.exit_code == 64
    assert message in done.outcome["error"]
    assert done.result is None
