"""Remove from an ONNX file what only its producer needed.

The exporter writes the Python source position of every operator, and shape inference a record for every intermediate
value. Small models pay for that with a tenth of their size and more. None of it changes what the model computes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import onnx


def _strip(entries: Iterable[Any]) -> None:
    for entry in entries:
        entry.doc_string = ""
        del entry.metadata_props[:]


def _subgraphs(graph: onnx.GraphProto) -> Iterable[onnx.GraphProto]:
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield attribute.g
            yield from attribute.graphs


def _slim_graph(graph: onnx.GraphProto) -> None:
    _strip([graph, *graph.node, *graph.initializer, *graph.input, *graph.output])
    del graph.value_info[:]
    for subgraph in _subgraphs(graph):
        _slim_graph(subgraph)


def slim(model: onnx.ModelProto) -> onnx.ModelProto:
    """Strip doc strings, metadata and intermediate shapes, in place.

    Returns:
        The same model.
    """
    _strip([model, *model.functions])
    for function in model.functions:
        _strip(function.node)
        del function.value_info[:]
    _slim_graph(model.graph)
    return model
