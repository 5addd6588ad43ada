import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import nn

from include.compression.export import export
from include.compression.onnx_weights import coverage
from include.compression.quantize import quantize
from include.core.contracts.recipe import ExportStep, QuantizeStep
from include.core.errors import UserError

DYNAMIC = QuantizeStep(method="dynamic")
INT8, INT4 = (QuantizeStep(method="weight-only", bits=bits) for bits in (8, 4))


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).random((200, 64), dtype=np.float32)


@pytest.fixture(scope="module")
def model(rows):
    torch.manual_seed(0)
    made = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
    return export(made.eval(), step=ExportStep(), example=torch.from_numpy(rows))


def answers(model, x):
    return onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]


def small(model, rows, step, scratch):
    return quantize(model, step=step, train=rows, scratch=scratch)


@pytest.mark.parametrize(("step", "least", "most"), [(DYNAMIC, 3.0, 4.0), (INT8, 2.5, 4.0), (INT4, 4.5, 8.0)])
def test_the_file_shrinks_by_what_the_bits_save(model, rows, tmp_path, step, least, most):
    made = small(model, rows, step, tmp_path)
    assert least < len(model) / len(made) < most
    assert coverage(onnx.load_from_string(made)) == 1.0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("step", "error"), [(DYNAMIC, 0.03), (INT8, 0.01), (INT4, 0.15)])
@pytest.mark.parametrize("batch", [1, 2, 7])
def test_answers_stay_close_at_every_batch_size(model, rows, tmp_path, step, error, batch):
    expected = answers(model, rows[:batch])
    found = answers(small(model, rows, step, tmp_path), rows[:batch])
    assert np.linalg.norm(found - expected) < error * np.linalg.norm(expected)


def test_four_bits_lose_more_than_eight(model, rows, tmp_path):
    expected = answers(model, rows)
    errors = [np.linalg.norm(answers(small(model, rows, step, tmp_path), rows) - expected) for step in (INT8, INT4)]
    assert errors[0] < errors[1]


@pytest.mark.parametrize("step", [DYNAMIC, INT4])
def test_the_same_input_gives_the_same_bytes(model, rows, tmp_path, step):
    assert small(model, rows, step, tmp_path) == small(model, rows, step, tmp_path)


def test_first_and_last_layer_stay_in_floating_point_where_asked(model, rows, tmp_path):
    step = QuantizeStep(method="weight-only", bits=4, keep_float="first-last")
    found = coverage(onnx.load_from_string(small(model, rows, step, tmp_path)))
    assert found == pytest.approx(128 * 128 / (64 * 128 + 128 * 128 + 128 * 10))


def test_a_width_that_no_block_divides_is_padded_and_still_right(tmp_path):
    torch.manual_seed(0)
    made = nn.Sequential(nn.Linear(50, 20), nn.ReLU(), nn.Linear(20, 3)).eval()
    rows = np.random.default_rng(0).random((50, 50), dtype=np.float32)
    model = export(made, step=ExportStep(), example=torch.from_numpy(rows))
    found = answers(small(model, rows, INT8, tmp_path), rows)
    assert np.allclose(found, answers(model, rows), atol=0.02)


@pytest.mark.parametrize("step", [DYNAMIC, INT4])
def test_a_model_without_matrix_products_is_refused(tmp_path, step):
    made = nn.Sequential(nn.Conv2d(1, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten()).eval()
    rows = np.random.default_rng(0).random((4, 1, 8, 8), dtype=np.float32)
    model = export(made, step=ExportStep(), example=torch.from_numpy(rows))
    with pytest.raises(UserError, match=r"nothing to quantize.*'method: static' for convolutions"):
        small(model, rows, step, tmp_path)


def test_convolutions_stay_as_they_are_since_dynamic_ones_are_slower(tmp_path):
    torch.manual_seed(0)
    made = nn.Sequential(nn.Conv2d(1, 8, 3), nn.Flatten(), nn.Linear(8 * 36, 10)).eval()
    rows = np.random.default_rng(0).random((4, 1, 8, 8), dtype=np.float32)
    model = export(made, step=ExportStep(), example=torch.from_numpy(rows))
    proto = onnx.load_from_string(small(model, rows, DYNAMIC, tmp_path))
    assert {"Conv", "MatMulInteger"} <= {node.op_type for node in proto.graph.node}
    assert "ConvInteger" not in {node.op_type for node in proto.graph.node}
    assert coverage(proto) == pytest.approx(2880 / (2880 + 72))
