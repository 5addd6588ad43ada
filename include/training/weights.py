"""Weights as safetensors, addressed by what they hold."""

from __future__ import annotations

import hashlib

import safetensors.torch
import torch

from include.core.store import ObjectStore


def weights_digest(model: torch.nn.Module) -> str:
    """SHA-256 over name, type, shape and bytes of all parameters and buffers, in the order of their names."""
    total = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        total.update(f"{name}|{value.dtype}|{tuple(value.shape)}|".encode())
        total.update(value.detach().cpu().contiguous().numpy().tobytes())
    return total.hexdigest()


def export_weights(model: torch.nn.Module, *, store: ObjectStore, run_prefix: str) -> tuple[str, str]:
    """Write the weights to ``<run prefix>/weights/<digest>.safetensors``.

    Returns:
        URI and digest. Equal weights are written once.
    """
    found = weights_digest(model)
    key = f"{run_prefix}/weights/{found}.safetensors"
    tensors = {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}
    store.create(key, safetensors.torch.save(tensors))
    return store.uri(key), found


def load_weights(model: torch.nn.Module, *, store: ObjectStore, uri: str) -> None:
    """Load exported weights into a model of the same architecture.

    Raises:
        FileNotFoundError: There is no such object.
        RuntimeError: Names or shapes do not fit the model.
    """
    data = store.get(store.key_of(uri))
    if data is None:
        raise FileNotFoundError(uri)
    model.load_state_dict(safetensors.torch.load(data))
