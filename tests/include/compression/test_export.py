import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from include.compression.export import INPUT, OUTPUT, export, verify
from include.core.contracts.recipe import ExportStep
from include.core.errors import PlimsollError
from include.training.models import small_cnn


@pytest.fixture(scope="module")
def example():
    return torch.rand(8, 1, 8, 8, generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def model(example):
    torch.manual_seed(0)
    model = small_cnn.build((1, 8, 8), 10, width=8, hidden=16)
    model(example)  # batch statistics that are not the initial ones
    return model.eval()


@pytest.fixture(scope="module")
def exported(model, example):
    # In training mode on purpose: dropout and batch statistics must not get into the file.
    return export(model.train(), step=ExportStep(), example=example)


def answers(exported, x):
    session = onnxruntime.InferenceSession(exported, providers=["CPUExecutionProvider"])
    return session.run([OUTPUT], {INPUT: x.numpy()})[0]


@pytest.mark.parametrize("batch", [1, 2, 5, 7, 33])
def test_answers_equal_those_of_torch_at_any_batch_size(exported, model, batch):
    x = torch.rand(batch, 1, 8, 8)
    with torch.no_grad():
        assert np.allclose(answers(exported, x), model.eval()(x).numpy(), atol=1e-5)


def test_the_file_has_the_agreed_names_and_operator_set_and_is_whole(exported):
    proto = onnx.load_from_string(exported)
    onnx.checker.check_model(proto)
    assert [i.name for i in proto.graph.input] == ["x"]
    assert [o.name for o in proto.graph.output] == ["logits"]
    assert proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param
    assert {(o.domain, o.version) for o in proto.opset_import} == {("", 20)}
    assert not any(i.external_data for i in proto.graph.initializer)


def test_the_file_is_little_more_than_the_weights(exported, model):
    weights = sum(p.numel() for p in model.parameters()) * 4
    assert weights < len(exported) < weights + 4_000
    assert "/" not in str(onnx.load_from_string(exported).graph.node)


def test_a_model_that_answers_differently_is_refused(exported, model, example):
    torch.manual_seed(1)
    other = small_cnn.build((1, 8, 8), 10, width=8, hidden=16).eval()
    verify(exported, model=model.eval(), example=example)
    with pytest.raises(PlimsollError, match="differs at batch 1"):
        verify(exported, model=other, example=example)


def test_a_model_of_fixed_batch_size_is_refused(exported, model, example):
    proto = onnx.load_from_string(exported)
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.shape.dim[0].Clear()
        value.type.tensor_type.shape.dim[0].dim_value = 1
    with pytest.raises(PlimsollError, match="refuses a batch of 2"):
        verify(proto.SerializeToString(), model=model.eval(), example=example)
