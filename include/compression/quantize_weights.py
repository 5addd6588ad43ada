"""Quantization without calibration: ranges found while the model runs, or weights alone in 8 or 4 bits.

Only matrix products change. ONNX Runtime has no fast integer convolution without calibrated activations: with dynamic
ranges a convolutional model is several times slower than in floating point, so its convolutions stay as they are.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import onnx
from onnxruntime.quantization import QuantType, quantize_dynamic
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from onnxruntime.quantization.onnx_model import ONNXModel

from include.compression.onnx_weights import kept_in_float, weighted_nodes
from include.compression.slim import slim
from include.core.contracts.recipe import QuantizeStep
from include.core.errors import UserError

# Integer arithmetic for the activations of a product with 4-bit weights, the fastest that ONNX Runtime has on a CPU.
_ACCURACY_LEVEL = 4


def quantize_weights(model: bytes, *, step: QuantizeStep, scratch: Path) -> bytes:
    """Model with quantized matrix products.

    Args:
        model: Float ONNX model.
        step: Settings; its method is ``dynamic`` or ``weight-only``.
        scratch: Folder for temporary files.

    Raises:
        UserError: The model has no matrix product with weights that the step could quantize.
    """
    proto = onnx.load_from_string(model)
    wrapped = ONNXModel(proto)
    wrapped.replace_gemm_with_matmul()
    wrapped.topological_sort()
    if not any(node.op_type == "MatMul" for node in weighted_nodes(proto)):
        raise UserError(
            f"{step.method} quantization has nothing to quantize",
            where="quantize step",
            found="a model without matrix products",
            allowed="models with linear layers",
            todo="use 'method: static' for convolutions",
        )
    keep = kept_in_float(proto, step.keep_float)
    quantized = _dynamic(proto, step, keep, scratch) if step.method == "dynamic" else _blocked(proto, step, keep)
    return slim(quantized).SerializeToString(deterministic=True)


def _dynamic(proto: onnx.ModelProto, step: QuantizeStep, keep: list[str], scratch: Path) -> onnx.ModelProto:
    # The quantizer gets files: given a model in memory, it loses the weights of anything but the smallest.
    with TemporaryDirectory(dir=scratch) as folder:
        raw, target = Path(folder) / "raw.onnx", Path(folder) / "dynamic.onnx"
        onnx.save(proto, raw)
        quantize_dynamic(
            raw,
            target,
            op_types_to_quantize=["MatMul"],
            nodes_to_exclude=keep,
            per_channel=step.per_channel,
            weight_type=QuantType.QInt8,
            reduce_range=step.portable,
        )
        return onnx.load(target)


def _blocked(proto: onnx.ModelProto, step: QuantizeStep, keep: list[str]) -> onnx.ModelProto:
    quantizer = MatMulNBitsQuantizer(
        proto,
        bits=step.bits,
        block_size=step.block_size,
        is_symmetric=False,
        accuracy_level=_ACCURACY_LEVEL,
        nodes_to_exclude=keep,
    )
    quantizer.process()
    found: onnx.ModelProto = quantizer.model.model
    return found
