"""A small model spread over workers in several ways, saved and loaded: what each worker of a test runs."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import torch
from torch import distributed, nn

from include.core.store import ObjectStore
from include.training.checkpoint import Checkpointer
from include.training.random_state import is_random_state
from include.training.state import TrainState


def build(kind: str, seed: int) -> TrainState:
    """A model whose sizes no number of workers divides, and an optimizer with a step behind it."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    torch.manual_seed(seed)
    world = distributed.get_world_size()
    model = nn.Sequential(nn.Linear(131, 601), nn.BatchNorm1d(601), nn.ReLU(), nn.Linear(601, 7))
    if kind == "fsdp":
        fully_shard(model, mesh=init_device_mesh("cpu", (world,)))
    elif kind == "hsdp":
        fully_shard(model, mesh=init_device_mesh("cpu", (2, world // 2), mesh_dim_names=("replicate", "shard")))
    elif kind == "tensor":
        parallelize_module(model[0:1], init_device_mesh("cpu", (world,)), {"0": ColwiseParallel()})
        parallelize_module(model[3:4], init_device_mesh("cpu", (world,)), {"0": RowwiseParallel()})
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    for parameter in model.parameters():
        parameter.grad = parameter.detach().clone()
    optimizer.step()
    optimizer.zero_grad()
    return TrainState(model=model, optimizer=optimizer, offset=seed * 10, step=seed, epoch_loss=seed / 3)


def checkpointer(root: str, attempt: int) -> Checkpointer:
    return Checkpointer(
        store=ObjectStore(f"file://{root}/store"),
        prefix="run/checkpoints",
        cache=Path(root) / f"cache-{attempt}",
        attempt=attempt,
        config="c",
        fingerprint="d",
    )


def digests(state: TrainState) -> dict[str, str]:
    """Digest of each tensor as a whole, whoever holds which part."""
    found = {}
    for name, value in state.to_tensors().items():
        if is_random_state(name):
            continue
        whole = value.full_tensor() if hasattr(value, "full_tensor") else value
        found[name] = hashlib.sha256(whole.detach().contiguous().reshape(-1).view(torch.uint8).numpy()).hexdigest()
    return found


def save(root: str, kind: str, attempt: int, seed: int) -> dict[str, Any]:
    state = build(kind, seed)
    saver = checkpointer(root, attempt)
    saver.save(state.to_tensors(), step=state.step)
    saver.settle()
    return {"digests": digests(state), "bytes": saver.bytes_written, "step": saver.last_step, "uri": saver.last_uri}


def load(root: str, kind: str, attempt: int) -> dict[str, Any]:
    """Load the newest checkpoint into another model of another number of workers, and save it from there."""
    state = build(kind, 77)
    loader = checkpointer(root, attempt)
    found = loader.newest()
    assert found is not None
    into = state.targets(found.names)
    loader.load(found, into)
    state.restore(into)
    drawn = torch.rand(1).item()
    got = digests(state)
    loader.save(state.to_tensors(), step=state.step + 1)
    loader.settle()
    return {"digests": got, "step": state.step, "offset": state.offset, "drawn": drawn, "skipped": loader.skipped}


def save_with_a_full_disk(root: str, kind: str, at: int) -> dict[str, Any]:
    """Save three times; the disk of worker ``at`` is full during the second one."""
    from include.core.errors import StoreError
    from include.training import blob_store

    state, saver = build(kind, 5), checkpointer(root, 1)
    write, told = blob_store._write_file, ""

    def full(path: Path, content: Any) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"half of it")
        raise OSError(28, "No space left on device")

    for step in (1, 2, 3):
        with torch.no_grad():
            for parameter in state.model.parameters():
                parameter.add_(1)
        if distributed.get_rank() == at:
            blob_store._write_file = full if step == 2 else write
        saver.save(state.to_tensors(), step=step)
        try:
            saver.settle()
        except StoreError as error:
            told = f"{step}: {error}"
    cached = len(list((Path(root) / "cache-1" / "blobs").iterdir()))
    return {"told": told, "last_step": saver.last_step, "cached": cached}
