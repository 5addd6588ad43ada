"""Weights as safetensors, addressed by what they hold."""

from __future__ import annotations

import hashlib

import safetensors.torch
import torch

from include.core.store import ObjectStore


def whole_weights(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """All parameters and buffers on the host. Where they are divided among workers, all workers have to call this."""
    whole: dict[str, torch.Tensor] = {}
    seen: set[int] = set()
    for name, value in model.state_dict().items():
        # Only a DTensor has the method; its class is not imported for the sake of those who have none.
        tensor = (value.full_tensor() if hasattr(value, "full_tensor") else value).detach().cpu().contiguous()
        # safetensors knows no shared memory: tied weights are written under each of their names.
        whole[name] = tensor.clone() if tensor.untyped_storage().data_ptr() in seen else tensor
        seen.add(whole[name].untyped_storage().data_ptr())
    return whole


def weights_digest(model: torch.nn.Module) -> str:
    """SHA-256 over name, type, shape and bytes of all parameters and buffers, in the order of their names."""
    return _digest(whole_weights(model))


def _digest(tensors: dict[str, torch.Tensor]) -> str:
    total = hashlib.sha256()
    for name, value in sorted(tensors.items()):
        total.update(f"{name}|{value.dtype}|{tuple(value.shape)}|".encode())
        # As bytes, since NumPy has no bf16.
        total.update(value.reshape(-1).view(torch.uint8).numpy().tobytes())
    return total.hexdigest()


def export_weights(model: torch.nn.Module, *, store: ObjectStore, run_prefix: str) -> tuple[str, str]:
    """Write the weights to ``<run prefix>/weights/<digest>.safetensors``; every worker calls it.

    Returns:
        URI and digest. Equal weights are written once.
    """
    tensors = whole_weights(model)
    found = _digest(tensors)
    key = f"{run_prefix}/weights/{found}.safetensors"
    if not torch.distributed.is_initialized() or torch.distributed.get_rank() == 0:
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
