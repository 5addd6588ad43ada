"""A model whose answers are known without training: it returns its three inputs as logits."""

import hashlib

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from include.core.contracts.recipe import Candidate
from include.evaluation.measure import LabelledRows


def rows(name):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 3])


def write_model(path, *, weight=1.0):
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["logits"])],
        "identity",
        [rows("x")],
        [rows("logits")],
        [helper.make_tensor("w", TensorProto.FLOAT, [3, 3], (np.eye(3, dtype=np.float32) * weight).ravel())],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    path.write_bytes(model.SerializeToString())
    onnx.checker.check_model(model)


def candidate_of(path, recipe="onnx-fp32"):
    return Candidate(
        recipe=recipe,
        recipe_hash="hash",
        model_uri="file:///store/model.onnx",
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        size_bytes=path.stat().st_size,
        parameters=9,
    )


@pytest.fixture
def model_file(tmp_path):
    path = tmp_path / "model.onnx"
    write_model(path)
    return path


@pytest.fixture
def broken_model_file(tmp_path):
    path = tmp_path / "model.onnx"
    write_model(path, weight=np.nan)
    return path


@pytest.fixture
def candidate():
    return candidate_of


@pytest.fixture
def labelled():
    """``labelled(rows, right)``: rows of which the known model answers `right` rightly."""

    def build(rows, right):
        y = np.arange(rows) % 3
        x = np.eye(3, dtype=np.float32)[np.where(np.arange(rows) < right, y, (y + 1) % 3)]
        return LabelledRows(x=x, y=y.astype(np.int64))

    return build
