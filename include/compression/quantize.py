"""Quantization by ONNX Runtime. Static INT8 has QDQ format, unsigned activations, signed weights.

Unsigned activations matter: with signed ones x86 processors have no fast kernels and the model gets smaller but not
faster.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
from onnxruntime.quantization import (
    CalibrationDataReader,
    CalibrationMethod,
    QuantFormat,
    QuantType,
    quantize_static,
)
from onnxruntime.quantization.shape_inference import quant_pre_process

from include.compression.calibration import calibration_rows
from include.compression.onnx_weights import kept_in_float
from include.compression.quantize_weights import quantize_weights
from include.compression.slim import slim
from include.core.contracts.recipe import QuantizeStep
from include.core.errors import UserError

_log = logging.getLogger("plimsoll.compression")
_CALIBRATION_BATCH = 32
_CALIBRATORS = {
    "minmax": CalibrationMethod.MinMax,
    "entropy": CalibrationMethod.Entropy,
    "percentile": CalibrationMethod.Percentile,
}
_Array = np.ndarray[Any, Any]


class _Rows(CalibrationDataReader):
    """Feeds calibration rows to the quantizer in small batches."""

    def __init__(self, *, name: str, rows: _Array) -> None:
        self._feeds: Iterator[dict[str, _Array]] = iter(
            [{name: rows[start : start + _CALIBRATION_BATCH]} for start in range(0, len(rows), _CALIBRATION_BATCH)]
        )

    def get_next(self) -> dict[str, _Array] | None:
        return next(self._feeds, None)


def refuse_attention(model: onnx.ModelProto) -> None:
    """Refuse attention models: additive masks stretch the activation ranges until nothing of the signal is left.

    Raises:
        UserError: The model has an attention operator, or a softmax whose result is multiplied by a matrix.
    """
    after_softmax = {name for node in model.graph.node if node.op_type == "Softmax" for name in node.output}
    for node in model.graph.node:
        if node.op_type == "Attention" or (node.op_type == "MatMul" and after_softmax & set(node.input)):
            raise UserError(
                "static INT8 does not suit attention models",
                where="quantize step",
                found=f"operator {node.op_type} {node.name!r}",
                todo="leave the quantize step out of the recipe",
            )


def _prepared(raw: Path) -> Path:
    """File of the model with operators fused and shapes inferred, or the raw file where that fails."""
    target = raw.with_name("prepared.onnx")
    try:
        # Symbolic inference serves attention models, which are refused, and its import costs two seconds.
        quant_pre_process(raw, target, skip_symbolic_shape=True)
    except Exception as error:  # noqa: BLE001 - the library raises bare Exception; quantization works without this step
        _log.warning("preparation for quantization failed, taking the model as it is: %s", error)
        return raw
    return target


def quantize(model: bytes, *, step: QuantizeStep, train: _Array, scratch: Path) -> bytes:
    """Quantized model of a float model.

    Args:
        model: Float ONNX model with one input.
        step: Settings.
        train: Encoded rows of the training split, float32 [rows, *input_shape].
        scratch: Folder for temporary files.

    Raises:
        DataError: The rows cannot be calibrated with.
        UserError: The model is of a family that the method would destroy, or has nothing to quantize.
    """
    if step.method != "static":
        return quantize_weights(model, step=step, scratch=scratch)
    return _static(model, step=step, train=train, scratch=scratch)


def _static(model: bytes, *, step: QuantizeStep, train: _Array, scratch: Path) -> bytes:
    proto = onnx.load_from_string(model)
    refuse_attention(proto)
    rows = calibration_rows(train, wanted=step.calibration_rows)
    # The quantizer gets files: given a model in memory, it loses the weights of anything but the smallest.
    with TemporaryDirectory(dir=scratch) as folder:
        raw, target = Path(folder) / "raw.onnx", Path(folder) / "int8.onnx"
        raw.write_bytes(model)
        prepared = _prepared(raw)
        quantize_static(
            prepared,
            target,
            _Rows(name=proto.graph.input[0].name, rows=rows),
            quant_format=QuantFormat.QDQ,
            per_channel=step.per_channel,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            reduce_range=step.portable,
            calibrate_method=_CALIBRATORS[step.calibrator],
            # By the names that the preparation gave them: it fuses and renames.
            nodes_to_exclude=kept_in_float(onnx.load(prepared), step.keep_float),
        )
        quantized: bytes = slim(onnx.load(target)).SerializeToString(deterministic=True)
    return quantized
