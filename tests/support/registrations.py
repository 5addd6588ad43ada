"""What a registry test registers."""

from __future__ import annotations

import hashlib

from include.registry.versions import Lineage, Registration, RunKey
from tests.support.models import CLASSES, WIDTH, linear_model

RUN = RunKey(workload="toy", run_id="manual__2026-11-30T10:00:00+00:00")


def order(*, seed: int = 0, run: RunKey = RUN, model_name: str = "toy") -> Registration:
    """Registration of a tiny model; another seed makes another artefact."""
    model = linear_model(seed=seed)
    return Registration(
        run=run,
        model_name=model_name,
        model=model,
        input_shape=(WIDTH,),
        classes=len(CLASSES),
        lineage=Lineage(
            sha256=hashlib.sha256(model).hexdigest(),
            model_uri=f"file:///store/{seed}/model.onnx",
            manifest_uri="file:///store/datasets/toy/manifest.json",
            data_fingerprint="toy",
            code_version="test",
            checkpoint_uri=f"file:///store/{seed}/checkpoint",
            weights_digest="w",
            recipe="onnx-fp32",
        ),
        documents={"verdict.json": b"{}", "pareto.png": b"png"},
        metrics={"accuracy": 0.97},
    )
