"""Prepared digits and a small trained model in a store, without running the training job."""

from __future__ import annotations

from typing import Any, NamedTuple

from include.config.workload import Workload
from include.core.contracts.dataset import DatasetManifest, DatasetRef
from include.core.store import ObjectStore
from tests.support.jobs import workload

SMALL_CNN = {"factory": "cnn", "arguments": {"width": 16, "hidden": 32}}


class Trained(NamedTuple):
    """What the jobs after the training get."""

    order: Workload
    dataset: DatasetRef
    manifest: DatasetManifest
    weights_uri: str
    weights_digest: str

    @property
    def inputs(self) -> dict[str, Any]:
        """``request.inputs`` of the compress job."""
        return {"weights_uri": self.weights_uri, "weights_digest": self.weights_digest}


def train_quickly(store: ObjectStore, *, epochs: int = 3) -> Trained:
    """Prepare the digits and fit a small CNN for some epochs in this process."""
    import torch

    from include.data.encoding import load_split
    from include.data.prepare import prepare_dataset
    from include.training.model_factory import build_model
    from include.training.weights import export_weights

    order = workload("digits", model=SMALL_CNN)
    prepared = prepare_dataset(store=store, data=order.data, roots=())
    x, y = (torch.from_numpy(part) for part in load_split(store, prepared.manifest, "train"))
    torch.manual_seed(0)
    model = build_model(order.model, input_shape=prepared.manifest.input_shape, classes=10)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.005)
    for _ in range(epochs):
        for part in torch.randperm(len(x)).split(64):
            loss = torch.nn.functional.cross_entropy(model(x[part]), y[part])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    uri, digest = export_weights(model.eval(), store=store, run_prefix="runs/test")
    return Trained(
        order=order,
        dataset=prepared.ref,
        manifest=prepared.manifest,
        weights_uri=uri,
        weights_digest=digest,
    )
