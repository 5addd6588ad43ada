"""Export to ONNX with a dynamic batch dimension, checked against the model it came from."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import onnxruntime
import torch
from torch import nn

from include.compression.slim import slim
from include.core.contracts.recipe import ExportStep
from include.core.errors import PlimsollError

INPUT = "x"
OUTPUT = "logits"
# A batch of 1 at export time would be taken for a constant; these sizes prove that it was not.
_CHECKED_BATCHES = (1, 2, 7)
_TOLERANCE = 1e-4
# Report every graph rewrite and every optional library that is absent.
_TALKATIVE = ("torch.onnx", "onnx_ir", "onnxscript")


def export(model: nn.Module, *, step: ExportStep, example: torch.Tensor) -> bytes:
    """ONNX model with one input ``x`` [batch, *input_shape] and one output ``logits`` [batch, classes].

    Args:
        model: Trained model.
        step: Settings.
        example: At least two input rows, [rows, *input_shape].

    Raises:
        PlimsollError: The exported model answers differently, or only for the batch size it was exported with.
    """
    model.eval()
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.ERROR)
    program = torch.onnx.export(
        model,
        # A slice keeps the whole storage alive inside the exported program.
        (example[:2].clone(),),
        input_names=[INPUT],
        output_names=[OUTPUT],
        dynamic_shapes=({0: torch.export.Dim("batch")},),
        dynamo=True,
        external_data=False,
        opset_version=step.opset,
        verbose=False,
    )
    exported: bytes = slim(program.model_proto).SerializeToString(deterministic=True)
    verify(exported, model=model, example=example)
    return exported


def verify(exported: bytes, *, model: nn.Module, example: torch.Tensor) -> None:
    """Compare an exported model with its source at several batch sizes.

    Raises:
        PlimsollError: The answers differ by more than 1e-4 of the largest logit, or a batch size is refused.
    """
    session = onnxruntime.InferenceSession(exported, providers=["CPUExecutionProvider"])
    for batch in _CHECKED_BATCHES:
        x: np.ndarray[Any, Any] = np.resize(example.numpy(), (batch, *example.shape[1:]))
        try:
            found = session.run([OUTPUT], {INPUT: x})[0]
        except Exception as error:
            raise PlimsollError(f"the exported model refuses a batch of {batch}") from error
        with torch.no_grad():
            expected = model(torch.from_numpy(x)).numpy()
        difference = float(np.abs(found - expected).max())
        if not difference <= _TOLERANCE * max(1.0, float(np.abs(expected).max())):
            raise PlimsollError(f"the exported model differs at batch {batch}: largest difference {difference:.3g}")
