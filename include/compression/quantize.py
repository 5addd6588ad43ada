"""Static INT8 quantization by ONNX Runtime: QDQ format, unsigned activations, signed weights.

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
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

from include.compression.slim import slim
from include.core.contracts.recipe import QuantizeStep
from include.core.errors import DataError, UserError

_log = logging.getLogger("plimsoll.compression")
_CALIBRATION_BATCH = 32
_Array = np.ndarray[Any, Any]


class _Rows(CalibrationDataReader):
    """Feeds calibration rows to the quantizer in small batches."""

    def __init__(self, *, name: str, rows: _Array) -> None:
        self._feeds: Iterator[dict[str, _Array]] = iter(
            [{name: rows[start : start + _CALIBRATION_BATCH]} for start in range(0, len(rows), _CALIBRATION_BATCH)]
        )

    def get_next(self) -> dict[str, _Array] | None:
        return next(self._feeds, None)


def calibration_rows(train: _Array, *, wanted: int) -> _Array:
    """Rows spread evenly over the training split, so that a sorted split still shows every class.

    Args:
        train: Encoded training rows, float32 [rows, *input_shape].
        wanted: How many; all of them when there are fewer.

    Raises:
        DataError: The rows are empty, hold values that are not finite, or do not differ from each other: activation
            ranges read from them would be meaningless and the model quietly broken.
    """
    count = min(wanted, len(train))
    rows = train[np.linspace(0, len(train) - 1, num=count).round().astype(int)] if count else train
    allowed = "finite rows of the training split that differ from each other"
    if not count:
        raise DataError("no rows to calibrate with", where="quantize step", found="0 rows", allowed=allowed)
    if not np.isfinite(rows).all():
        bad = int((~np.isfinite(rows.reshape(count, -1)).all(axis=1)).sum())
        raise DataError(
            "calibration rows are not finite", where="quantize step", found=f"{bad} of {count} rows", allowed=allowed
        )
    if np.ptp(rows, axis=0).max() == 0:
        raise DataError(
            "calibration rows are all equal", where="quantize step", found=f"{count} equal rows", allowed=allowed
        )
    return rows


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
    """INT8 model of a float model.

    Args:
        model: Float ONNX model with one input.
        step: Settings.
        train: Encoded rows of the training split, float32 [rows, *input_shape].
        scratch: Folder for temporary files.

    Raises:
        DataError: The rows cannot be calibrated with.
        UserError: The model is of a family that static INT8 would destroy.
    """
    proto = onnx.load_from_string(model)
    refuse_attention(proto)
    rows = calibration_rows(train, wanted=step.calibration_rows)
    # The quantizer gets files: given a model in memory, it loses the weights of anything but the smallest.
    with TemporaryDirectory(dir=scratch) as folder:
        raw, target = Path(folder) / "raw.onnx", Path(folder) / "int8.onnx"
        raw.write_bytes(model)
        quantize_static(
            _prepared(raw),
            target,
            _Rows(name=proto.graph.input[0].name, rows=rows),
            quant_format=QuantFormat.QDQ,
            per_channel=step.per_channel,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
        )
        quantized: bytes = slim(onnx.load(target)).SerializeToString(deterministic=True)
    return quantized
