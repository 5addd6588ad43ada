"""Weights of every kind of model can be written, read again, and have a digest of what they hold."""

from __future__ import annotations

import torch

from include.core.store import ObjectStore
from include.training.weights import export_weights, load_weights, weights_digest


class Tied(torch.nn.Module):
    """Embedding and head share their weights, as in most language models."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(7, 4)
        self.head = torch.nn.Linear(4, 7, bias=False)
        self.head.weight = self.embedding.weight


def test_tied_weights_survive(file_store: ObjectStore) -> None:
    model, other = Tied(), Tied()
    uri, digest = export_weights(model, store=file_store, run_prefix="runs/t/r")
    load_weights(other, store=file_store, uri=uri)
    assert torch.equal(other.head.weight, model.embedding.weight)
    assert other.head.weight is other.embedding.weight
    assert weights_digest(other) == digest


def test_parameters_in_bf16_survive(file_store: ObjectStore) -> None:
    model, other = (torch.nn.Linear(3, 2).to(torch.bfloat16) for _ in range(2))
    uri, digest = export_weights(model, store=file_store, run_prefix="runs/t/r")
    load_weights(other, store=file_store, uri=uri)
    assert torch.equal(other.weight, model.weight)
    assert weights_digest(other) == digest


def test_digest_is_that_of_the_bytes() -> None:
    model = torch.nn.Linear(2, 1)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[1.0, 2.0]]))
        model.bias.copy_(torch.tensor([0.5]))
    # sha256 of "bias|torch.float32|(1,)|" + 0000003f + "weight|torch.float32|(1, 2)|" + 0000803f 00000040
    assert weights_digest(model) == "8dcd62e10ea54b5ba74a6c4664850af5e25c57171ae37a79999486f75cb8cb89"
