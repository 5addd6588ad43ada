import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from include.compression.slim import slim


@pytest.fixture
def wordy():
    branch = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["branch"], doc_string="inner source line")],
        "branch",
        [],
        [helper.make_tensor_value_info("branch", TensorProto.FLOAT, [None])],
    )
    nodes = [
        helper.make_node("Add", ["x", "one"], ["sum"], doc_string="source line " * 50),
        helper.make_node("Cast", ["flag"], ["truth"], to=TensorProto.BOOL),
        helper.make_node("If", ["truth"], ["chosen"], then_branch=branch, else_branch=branch),
        helper.make_node("Add", ["sum", "chosen"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "wordy",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])],
        [
            helper.make_tensor("one", TensorProto.FLOAT, [1], [1.0]),
            helper.make_tensor("flag", TensorProto.INT32, [], [1]),
        ],
        value_info=[helper.make_tensor_value_info("sum", TensorProto.FLOAT, ["n"])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10, doc_string="model")
    for entry in (model, graph.node[0], model.graph.node[0]):
        helper.set_model_props(model, {"key": "value"}) if entry is model else entry.metadata_props.add(
            key="k", value="v"
        )
    return model


def run(model):
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": np.array([1, 2], dtype=np.float32)})[0].tolist()


def test_words_go_and_answers_stay(wordy):
    before, answers = len(wordy.SerializeToString()), run(wordy)
    assert slim(wordy) is wordy
    text = str(wordy)
    assert "source line" not in text
    assert "metadata_props" not in text
    assert "value_info" not in text
    assert len(wordy.SerializeToString()) < before - 500
    assert run(wordy) == answers == [3, 5]
    onnx.checker.check_model(wordy)
