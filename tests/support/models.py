"""Tiny served models: a dataset manifest, shards and ONNX files that take milliseconds to make. No torch."""

from __future__ import annotations

import hashlib
import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from onnx import TensorProto, helper, numpy_helper

from include.core.contracts.dataset import DatasetManifest, DatasetRef, Feature, Shard
from include.core.contracts.scorecard import Scorecard, Verdict
from include.core.json_codec import to_json
from include.core.store import ObjectStore
from include.serving.desired import ServedVersion

CLASSES = ("cat", "dog", "eel")
FEATURES = (
    Feature(name="height", kind="numeric", mean=1.0, std=2.0),
    Feature(name="weight", kind="numeric"),
    Feature(name="colour", kind="categorical", categories=("black", "white")),
)
WIDTH = 4


def linear_model(*, seed: int = 0, width: int = WIDTH, classes: int = len(CLASSES), scale: float = 1.0) -> bytes:
    """ONNX bytes of ``logits = x @ W + b``."""
    rng = np.random.default_rng(seed)
    weights = (scale * rng.standard_normal((width, classes))).astype(np.float32)
    bias = np.zeros(classes, np.float32)
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "w", "b"], ["logits"])],
        "linear",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", width])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", classes])],
        [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(bias, "b")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    return model.SerializeToString()


def raw_rows(*, rows: int, seed: int = 0) -> dict[str, list[Any]]:
    """Raw columns of the toy dataset, with a null here and there."""
    rng = np.random.default_rng(seed)
    heights = rng.normal(1, 2, rows).round(3).tolist()
    return {
        "height": [None if index % 17 == 5 else value for index, value in enumerate(heights)],
        "weight": rng.normal(0, 1, rows).round(3).tolist(),
        "colour": rng.choice(["black", "white"], rows).tolist(),
    }


def put_dataset(store: ObjectStore, *, test_rows: int = 120, model: bytes | None = None) -> DatasetRef:
    """Write the toy dataset; its labels are what `model` answers, so that this model is always right."""
    from include.data.encoding import encode_features

    prefix = "datasets/toy"
    empty = DatasetManifest(
        fingerprint="toy",
        task="classification",
        label="animal",
        classes=CLASSES,
        features=FEATURES,
        input_shape=(WIDTH,),
        shards=(),
    )
    shards = []
    for split, rows in (("train", 40), ("validation", 40), ("test", test_rows)):
        columns: dict[str, list[Any]] = raw_rows(rows=rows, seed=rows)
        answers = onnx_logits(model or linear_model(), encode_features(columns, empty)).argmax(axis=1)
        columns["animal"] = [CLASSES[index] for index in answers]
        out = io.BytesIO()
        pq.write_table(pa.table(columns), out)
        key = f"{prefix}/{split}-0.parquet"
        store.put(key, out.getvalue())
        digest = hashlib.sha256(out.getvalue()).hexdigest()
        shards.append(Shard(key=key, split=split, rows=rows, size_bytes=len(out.getvalue()), sha256=digest))
    manifest = DatasetManifest(**{**{f: getattr(empty, f) for f in empty.__slots__}, "shards": tuple(shards)})
    store.put_json(f"{prefix}/manifest.json", to_json(manifest))
    return DatasetRef(
        uri=store.uri(f"{prefix}/manifest.json"),
        fingerprint="toy",
        rows={shard.split: shard.rows for shard in shards},
    )


def onnx_logits(model: bytes, rows: np.ndarray) -> np.ndarray:
    """What onnxruntime answers."""
    import onnxruntime

    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": rows})[0]


def put_version(
    store: ObjectStore, *, version: str = "1", model: bytes | None = None, manifest_uri: str | None = None
) -> ServedVersion:
    """Write a model as the artefact of a version."""
    data = model if model is not None else linear_model(seed=int(version))
    store.put(f"models/{version}/model.onnx", data)
    return ServedVersion(
        model_name="toy",
        version=version,
        model_uri=store.uri(f"models/{version}/model.onnx"),
        sha256=hashlib.sha256(data).hexdigest(),
        manifest_uri=manifest_uri or put_dataset(store).uri,
    )


def verdict_for(
    store: ObjectStore, *, model: bytes | None = None, recipe: str = "static-int8", accuracy: float = 1.0
) -> Verdict:
    """A verdict that chose one recipe, whose artefact is in the store with its recipe document beside it."""
    data = model if model is not None else linear_model()
    sha256 = hashlib.sha256(data).hexdigest()
    prefix = f"runs/toy/run/candidates/{sha256[:12]}"
    store.put(f"{prefix}/model.onnx", data)
    store.put_json(f"{prefix}/recipe.json", {"recipe": {"name": recipe}})
    card = Scorecard(
        recipe=recipe,
        recipe_hash=sha256[:12],
        model_uri=store.uri(f"{prefix}/model.onnx"),
        sha256=sha256,
        size_bytes=len(data),
        rows=120,
        accuracy=accuracy,
        accuracy_low=max(accuracy - 0.03, 0.0),
        accuracy_high=1.0,
        validation_accuracy=accuracy,
        latencies=(),
        peak_rss_bytes=1,
        runtime="onnxruntime",
    )
    return Verdict(chosen=recipe, reason="smallest that passes", front=(recipe,), checks=(), scorecards=(card,))


def free_port() -> int:
    """A port on which nothing listens at this moment."""
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
