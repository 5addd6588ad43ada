"""What a checkpoint costs: the loop's stall, bytes, throughput; beside plain ``dcp.save`` and ``torch.save``.

A transformer with its Adam state, about 190 MiB, is saved by all contenders in turn, each on the local disk and forced
to it. Between two saves every parameter changes, except in the run with a frozen backbone.

Ends with one JSON line. Figures: ``stall_share`` (seconds that the loop is blocked per save, over an interval of 30 s),
``full_bytes_ratio`` (bytes written per save over bytes of the state, all parameters training), ``frozen_bytes_ratio``
(bytes of a later save over those of the first one, backbone frozen), ``save_mib_per_s`` (state to commit) and
``dcp_save_mib_per_s``.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import torch
from torch import nn
from torch.distributed import checkpoint as dcp

from include.core.store import ObjectStore
from include.training.checkpoint import Checkpointer
from include.training.retention import RetentionPolicy
from include.training.state import TrainState

ROUNDS = 5
INTERVAL_S = 30.0
MIB = 2**20
WIDTH, LAYERS, CLASSES = 512, 5, 10


def build(*, frozen: bool) -> TrainState:
    torch.manual_seed(1)
    layers = [nn.TransformerEncoderLayer(WIDTH, 8, 4 * WIDTH) for _ in range(LAYERS)]
    model = nn.Sequential(*layers, nn.Linear(WIDTH, CLASSES))
    if frozen:
        for layer in layers:
            layer.requires_grad_(False)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    state = TrainState(model=model, optimizer=optimizer)
    advance(state)
    return state


def advance(state: TrainState) -> None:
    """One step with made-up gradients: every trained value and its moments change."""
    for parameter in state.model.parameters():
        if parameter.requires_grad:
            parameter.grad = torch.randn_like(parameter)
    state.optimizer.step()
    state.optimizer.zero_grad(set_to_none=True)
    state.step += 1


def size_bytes(state: TrainState) -> int:
    return sum(value.nbytes for value in state.to_tensors().values())


def checkpointer(folder: Path) -> Checkpointer:
    return Checkpointer(
        store=ObjectStore(f"file://{folder / 'store'}"),
        prefix="run/checkpoints",
        cache=folder / "cache",
        attempt=1,
        config="bench",
        fingerprint="bench",
        retention=RetentionPolicy(keep_last=2, keep_best=0),
    )


def steps_while(busy: Callable[[], bool]) -> float:
    """Matrix products per second that the loop's thread gets done meanwhile."""
    left, right = torch.randn(256, 256), torch.randn(256, 256)
    began, done = time.perf_counter(), 0
    while busy():
        torch.mm(left, right)
        done += 1
    return done / (time.perf_counter() - began)


def forced(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def save_ours(saver: Checkpointer, state: TrainState) -> dict[str, float]:
    written, began = saver.bytes_written, time.perf_counter()
    tensors = state.to_tensors()
    described = time.perf_counter()
    saver.save(tensors, step=state.step)
    stall = time.perf_counter() - began
    saver.settle()
    # To the commit: what is removed after it holds up nobody.
    total = described - began + saver.save_seconds[-1]
    return {"stall_s": stall, "total_s": total, "bytes": saver.bytes_written - written}


def loop_rate_during_save(saver: Checkpointer, state: TrainState) -> float:
    """How fast the loop goes while a save is under way."""
    saver.save(state.to_tensors(), step=state.step)
    rate = steps_while(lambda: saver.last_step < state.step)
    saver.settle()
    return rate


def save_dcp(folder: Path, state: TrainState) -> float:
    began = time.perf_counter()
    dcp.save(state.to_tensors(), storage_writer=dcp.FileSystemWriter(folder, sync_files=True), no_dist=True)
    forced(folder)
    return time.perf_counter() - began


def save_torch(path: Path, state: TrainState) -> float:
    began = time.perf_counter()
    torch.save(state.to_tensors(), path)
    forced(path)
    return time.perf_counter() - began


def idle_rate() -> float:
    end = time.perf_counter() + 0.3
    return steps_while(lambda: time.perf_counter() < end)


def measure(folder: Path) -> dict[str, list[float]]:
    state, saver = build(frozen=False), checkpointer(folder)
    rows: dict[str, list[float]] = {}
    for number in range(ROUNDS + 1):
        advance(state)
        os.sync()
        found = save_ours(saver, state)
        os.sync()
        found["dcp_s"] = save_dcp(folder / f"dcp-{number}", state)
        os.sync()
        found["torch_s"] = save_torch(folder / f"torch-{number}.pt", state)
        # Else the page cache grows into memory that this machine has never touched, at the cost of whoever is next.
        shutil.rmtree(folder / f"dcp-{number}")
        (folder / f"torch-{number}.pt").unlink()
        advance(state)
        os.sync()
        found["products_per_s"] = loop_rate_during_save(saver, state)
        found["idle_products_per_s"] = idle_rate()
        # The first round pays for buffers and imports, with every contender.
        if number:
            for name, value in found.items():
                rows.setdefault(name, []).append(value)
        else:
            rows["first_stall_s"] = [found["stall_s"]]
    rows["state_bytes"] = [size_bytes(state)]
    return rows


def measure_frozen(folder: Path) -> tuple[float, list[float]]:
    state, saver = build(frozen=True), checkpointer(folder)
    first = save_ours(saver, state)["bytes"]
    later = []
    for _ in range(ROUNDS):
        advance(state)
        later.append(save_ours(saver, state)["bytes"] / first)
    return statistics.median(later), later


def main() -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="plimsoll-checkpoint-") as name:
        rows = measure(Path(name) / "full")
        frozen, frozen_all = measure_frozen(Path(name) / "frozen")
    middle = {key: statistics.median(values) for key, values in rows.items()}
    mib = middle["state_bytes"] / MIB
    figures = {
        "stall_share": round(middle["stall_s"] / INTERVAL_S, 6),
        "full_bytes_ratio": round(middle["bytes"] / middle["state_bytes"], 4),
        "frozen_bytes_ratio": round(frozen, 4),
        "save_mib_per_s": round(mib / middle["total_s"], 1),
        "dcp_save_mib_per_s": round(mib / middle["dcp_s"], 1),
    }
    context = {
        "rounds": ROUNDS,
        "interval_s": INTERVAL_S,
        "state_mib": round(mib, 1),
        "torch_save_mib_per_s": round(mib / middle["torch_s"], 1),
        "stall_s": [round(value, 4) for value in rows["stall_s"]],
        "first_stall_s": round(rows["first_stall_s"][0], 4),
        "min_max_save_s": [round(min(rows["total_s"]), 3), round(max(rows["total_s"]), 3)],
        "min_max_dcp_s": [round(min(rows["dcp_s"]), 3), round(max(rows["dcp_s"]), 3)],
        "loop_speed_during_save": round(middle["products_per_s"] / middle["idle_products_per_s"], 3),
        "frozen_bytes_ratios": [round(value, 4) for value in frozen_all],
    }
    print(json.dumps({"bench": "checkpoint", "figures": figures, "context": context}))


if __name__ == "__main__":
    main()
