import hashlib

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from include.config.job_messages import EvaluateResult
from include.core.contracts.recipe import Candidate
from include.data.prepare import prepare_dataset
from tests.support.jobs import workload


def constant_model():
    """Answers class 3 to every digit."""
    nodes = [
        helper.make_node("Flatten", ["x"], ["flat"]),
        helper.make_node("Gemm", ["flat", "w", "b"], ["logits"]),
    ]
    graph = helper.make_graph(
        nodes,
        "constant",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 1, 8, 8])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 10])],
        [
            helper.make_tensor("w", TensorProto.FLOAT, [64, 10], np.zeros(640)),
            helper.make_tensor("b", TensorProto.FLOAT, [10], np.eye(10)[3]),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    onnx.checker.check_model(model)
    return model.SerializeToString()


@pytest.fixture
def evaluate(any_store, run_job, job_request):
    order = workload()
    dataset = prepare_dataset(store=any_store, data=order.data, roots=()).ref
    model = constant_model()
    any_store.put("runs/w/candidates/h/model.onnx", model)
    candidate = Candidate(
        recipe="onnx-fp32",
        recipe_hash="h",
        model_uri=any_store.uri("runs/w/candidates/h/model.onnx"),
        sha256=hashlib.sha256(model).hexdigest(),
        size_bytes=len(model),
        parameters=650,
    )
    return lambda **fields: run_job(
        "evaluate",
        job_request("evaluate", order=order, **{"candidate": candidate, "dataset": dataset, **fields}),
        any_store,
    )


@pytest.mark.integration
def test_a_candidate_is_scored_and_a_flipped_byte_is_refused(evaluate, any_store):
    card = EvaluateResult.model_validate(evaluate().result).scorecard
    assert 0.05 < card.accuracy < 0.15
    assert card.rows == 387
    assert {latency.batch for latency in card.latencies} == {1, 32}

    content = bytearray(any_store.get("runs/w/candidates/h/model.onnx"))
    content[100] ^= 1
    any_store.put("runs/w/candidates/h/model.onnx", bytes(content))
    refused = evaluate(attempt=2)
    assert refused.exit_code == 1
    assert "model file is not the candidate" in refused.outcome["error"]
    assert refused.result is None

    any_store.delete("runs/w/candidates/h/model.onnx")
    assert "model file is missing" in evaluate(attempt=3).outcome["error"]


@pytest.mark.integration
def test_an_incomplete_request_ends_with_64(evaluate):
    done = evaluate(candidate=None)
    assert done.exit_code == 64
    assert "no candidate" in done.outcome["error"]
