"""What the weights of an ONNX model are made of: which nodes hold them, and how many of them are quantized."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import onnx

# A weight has at least two dimensions; biases and scales have fewer and stay as they are.
_MATRIX = 2
_PACKED = {onnx.TensorProto.INT8, onnx.TensorProto.UINT8, onnx.TensorProto.INT4, onnx.TensorProto.UINT4}
_FLOAT = {onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16, onnx.TensorProto.DOUBLE}
_WEIGHTED = ("Conv", "ConvTranspose", "Gemm", "MatMul")
# Operators of ONNX Runtime whose packed weights have other shapes than the matrix they stand for.
_BLOCKED = ("MatMulNBits",)


def weighted_nodes(model: onnx.ModelProto) -> tuple[onnx.NodeProto, ...]:
    """Nodes that multiply with constant weights, in the order in which they run."""
    constants = {tensor.name for tensor in model.graph.initializer if len(tensor.dims) >= _MATRIX}
    return tuple(node for node in model.graph.node if node.op_type in _WEIGHTED and constants & set(node.input))


def kept_in_float(model: onnx.ModelProto, keep: str) -> list[str]:
    """Names of the nodes that a step leaves as they are.

    Args:
        model: The model, after every preparation that renames nodes.
        keep: ``none`` or ``first-last``.
    """
    nodes = weighted_nodes(model)
    return [nodes[0].name, nodes[-1].name] if keep == "first-last" and nodes else []


def coverage(model: onnx.ModelProto) -> float | None:
    """Fraction of the weights that are stored in 8 bits or fewer, 0..1; None for a model without weights."""
    packed = floating = 0
    blocked = {name for node in model.graph.node if node.op_type in _BLOCKED for name in node.input}
    for tensor in model.graph.initializer:
        if len(tensor.dims) < _MATRIX or tensor.name in blocked:
            continue
        packed += prod(tensor.dims) if tensor.data_type in _PACKED else 0
        floating += prod(tensor.dims) if tensor.data_type in _FLOAT else 0
    packed += sum(_blocked_weights(model))
    return packed / (packed + floating) if packed + floating else None


def _blocked_weights(model: onnx.ModelProto) -> Iterator[int]:
    for node in model.graph.node:
        if node.op_type in _BLOCKED:
            shape = {attribute.name: attribute.i for attribute in node.attribute}
            yield shape["K"] * shape["N"]
