"""A served model: the ONNX artefact of one version, checked by digest and by a first answer, with its classes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from include.core.contracts.dataset import DatasetManifest
from include.core.errors import DataError
from include.core.store import ObjectStore
from include.data.encoding import read_manifest
from include.serving.desired import ServedVersion
from include.serving.payload import Rows


class ArtefactError(Exception):
    """The version cannot be served as it is; another attempt would meet the same bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """A version that has answered at least once.

    Attributes:
        served: What was loaded.
        manifest: How raw columns are encoded, and the classes.
        score: Maps encoded rows to logits of shape (rows, classes).
    """

    served: ServedVersion
    manifest: DatasetManifest
    score: Callable[[Rows], NDArray[np.float32]]


def load_model(store: ObjectStore, served: ServedVersion) -> ServedModel:
    """Load a version and let it answer one row.

    Raises:
        ArtefactError: File or manifest absent, digest differs, not a model, or an answer of the wrong shape.
    """
    try:
        manifest = read_manifest(store, served.manifest_uri)
    except DataError as error:
        raise ArtefactError(str(error)) from error
    data = store.get(store.key_of(served.model_uri))
    if data is None:
        raise ArtefactError(f"no artefact at {served.model_uri}")
    found = hashlib.sha256(data).hexdigest()
    if found != served.sha256:
        raise ArtefactError(f"artefact is corrupt: {served.model_uri} has sha256 {found}, wanted {served.sha256}")
    model = ServedModel(served=served, manifest=manifest, score=_session(data))
    _first_answer(model)
    return model


def _session(data: bytes) -> Callable[[Rows], NDArray[np.float32]]:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    try:
        session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise ArtefactError(f"not a model that onnxruntime can load: {error}") from error
    inputs = session.get_inputs()
    if len(inputs) != 1:
        raise ArtefactError(f"the model must have one input, found {[item.name for item in inputs]}")
    name, output = inputs[0].name, session.get_outputs()[0].name

    def score(rows: Rows) -> NDArray[np.float32]:
        return np.asarray(session.run([output], {name: rows})[0], np.float32)

    return score


def _first_answer(model: ServedModel) -> None:
    rows = np.zeros((2, *model.manifest.input_shape), np.float32)
    wanted = (len(rows), len(model.manifest.classes))
    try:
        answer = model.score(rows)
    except Exception as error:
        raise ArtefactError(f"the model does not take rows of shape {model.manifest.input_shape}: {error}") from error
    if answer.shape != wanted or not np.isfinite(answer).all():
        raise ArtefactError(f"the model answers shape {list(answer.shape)}; wanted finite logits {list(wanted)}")


def probabilities(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    """Softmax over the last axis, shifted by the maximum so that no exponential overflows."""
    shifted = np.exp(logits.astype(np.float64) - logits.max(axis=-1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=-1, keepdims=True))


def predictions(logits: NDArray[np.float32], classes: tuple[str, ...]) -> list[dict[str, Any]]:
    """One ``{"label", "probabilities"}`` per row: the most probable class, and all classes with 6 decimals."""
    shares = probabilities(logits)
    best = shares.argmax(axis=-1)
    return [
        {"label": classes[winner], "probabilities": dict(zip(classes, np.round(row, 6).tolist(), strict=True))}
        for winner, row in zip(best, shares, strict=True)
    ]
