"""Demands of well-known trainings by arithmetic, for the planner's bench and golden cases. Nothing here is traced.

State in fp32 under autocast, AdamW: 4 bytes per parameter, 4 per gradient, 8 of optimizer state, 4 of scratch space in
the update. Activations of a transformer block: 34 x tokens x hidden bytes in 16 bits (Korthikanti et al., 2022, without
the attention matrix), of which 18 stay when all but the matrix products are recomputed and 2 when whole blocks are.
Traffic is 16 x the saved bytes forward and backward, as a trace of the GPT-2 of 124 M parameters gave. Tensor-parallel
workers reduce the activations of a block twice forward and twice backward (Shoeybi et al., 2019) and divide 95 % of the
weights. Figures of ResNet-50 are those of a trace at two batch sizes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from include.config.workload import Workload
from include.core.contracts.demand import Demand, MemoryByComponent, PeakLine, StepCase
from include.core.json_codec import from_json
from tests.support.offers import order

METHOD = __doc__ or ""
SHARDS = (1, 2, 4, 8, 16, 32, 64)
MIB = 2**20
_DIGITS = Path(__file__).parents[1] / "golden" / "digits_demand.json"
_TRAFFIC_OF_SAVED = 16


@dataclass(frozen=True, kw_only=True)
class Model:
    """What a step of a model takes, per sample in 16 bits unless said otherwise."""

    parameters: float
    trainable: float
    block: float
    saved: dict[str, float]
    flop: float
    traffic: float
    loss: float = 0.0
    ops: int = 1000
    tensor: float | None = None
    extra_flop: dict[str, float] = field(default_factory=lambda: {"selective": 1.0, "block": 4 / 3})


def transformer(*, layers: int, hidden: int, vocabulary: int, tokens: int, trainable: float = 1.0) -> Model:
    block = 12 * hidden * hidden
    parameters = layers * block + vocabulary * hidden
    per_layer = tokens * hidden
    loss = tokens * vocabulary * 14.0
    saved = {
        "off": 34.0 * per_layer * layers,
        "selective": 18.0 * per_layer * layers + 16.0 * per_layer,
        "block": 2.0 * per_layer * layers + 34.0 * per_layer,
    }
    backward = 4 if trainable == 1 else 2.2  # frozen weights have no gradient of their own
    return Model(
        parameters=parameters,
        trainable=parameters * trainable,
        block=block,
        saved=saved,
        flop=(2 + backward) * parameters * tokens,
        traffic=_TRAFFIC_OF_SAVED * (saved["off"] + loss),
        loss=loss,
        ops=180 * layers,
        tensor=4 * 2.0 * per_layer * layers,
    )


def case_of(model: Model, *, precision: str, recompute: str, shard: int) -> StepCase:
    width = 2 if precision == "fp32" else 1
    copy = 0 if precision == "fp32" else 2
    gathered = round(model.block * (4 if precision == "fp32" else 2) * 2)
    again = model.extra_flop.get(recompute, 1.0)
    temporary = model.saved["off"] * 0.02 * width
    saved = model.saved[recompute] * width
    waiting = PeakLine(
        fixed_bytes=gathered,
        activations_bytes_per_sample=saved,
        loss_bytes_per_sample=model.loss,
        temporary_bytes_per_sample=temporary,
    )
    return StepCase(
        precision=precision,
        recompute=recompute,
        shard=shard,
        optimizer="adamw",
        parameters_bytes=round(4 * model.parameters / shard),
        gradients_bytes=round(4 * model.trainable / shard),
        optimizer_bytes=round(8 * model.trainable / shard),
        backward_bytes=gathered if shard > 1 else round(copy * model.parameters),
        activations_bytes_per_sample=saved,
        loss_bytes_per_sample=model.loss,
        temporary_bytes_per_sample=temporary,
        update_bytes=round(4 * model.trainable / shard),
        flop_per_sample=model.flop * again,
        bytes_moved_per_sample=model.traffic * width * again,
        bytes_moved_per_update=28 * model.trainable / shard,
        ops_per_pass=round(model.ops * again),
        ops_per_update=50,
        bytes_moved_per_pass=(8 if precision == "fp32" else 6) * model.parameters,
        offload_peaks=(waiting,) if shard == 1 else (),
    )


def demand_of(model: Model, *, micro_batch: int, steps: int, family: str, **fields: Any) -> Demand:
    cases = tuple(
        case_of(model, precision=precision, recompute=recompute, shard=shard)
        for precision in ("fp32", "bf16")
        for recompute in model.saved
        for shard in SHARDS
    )
    values: dict[str, Any] = {
        "memory": MemoryByComponent(
            parameters_bytes=round(4 * model.parameters),
            gradients_bytes=round(4 * model.trainable),
            optimizer_bytes=round(8 * model.trainable),
            activations_bytes=round(2 * model.saved["off"] * micro_batch),
            temporary_bytes=round(model.loss * micro_batch),
        ),
        "micro_batch": micro_batch,
        "parameters": round(model.trainable),
        "flop_per_sample": model.flop,
        "bytes_moved_per_sample": model.traffic,
        "ops_per_step": model.ops,
        "steps": steps,
        "host_ram_bytes": 4 * 10**9,
        "vcpus": 1,
        "disk_bytes": 10**10,
        "cpu_s_per_step": None,
        "method": "arithmetic, see tests/support/textbook_demands.py",
        "cases": cases,
        "family": family,
        "tensor_bytes_per_sample": model.tensor,
        "tensor_share": 0.0 if model.tensor is None else 0.95,
        "checkpoint_bytes": round(4 * model.parameters + 8 * model.trainable),
    }
    return Demand(**{**values, **fields})


RESNET50 = Model(
    parameters=25.6e6,
    trainable=25.6e6,
    block=15e6,
    saved={"off": 40.3 * MIB, "block": 15.2 * MIB},
    flop=24.3e9,
    traffic=0.48e9,
    ops=1500,
)
GPT2 = transformer(layers=12, hidden=768, vocabulary=50257, tokens=1024)
LLAMA_7B = transformer(layers=32, hidden=4096, vocabulary=32000, tokens=2048)
ADAPTER_7B = transformer(layers=32, hidden=4096, vocabulary=32000, tokens=2048, trainable=0.006)


def digits() -> Demand:
    """The traced demand of the shipped workload, with a table of the same figures."""
    traced = from_json(Demand, json.loads(_DIGITS.read_text()))
    memory, batch = traced.memory, traced.micro_batch
    model = Model(
        parameters=memory.parameters_bytes / 4,
        trainable=memory.gradients_bytes / 4,
        block=memory.parameters_bytes / 8,
        saved={"off": (memory.activations_bytes + memory.temporary_bytes) / batch / 2},
        flop=traced.flop_per_sample,
        traffic=traced.bytes_moved_per_sample / 2,
        ops=traced.ops_per_step,
    )
    made = demand_of(model, micro_batch=batch, steps=traced.steps, family="cnn")
    return Demand(**{name: getattr(traced, name) for name in traced.__slots__ if name != "cases"}, cases=made.cases)


def ordered(*, batch_size: int, precision: str = "bf16", engine: str = "any", **sections: Any) -> Workload:
    """An order that every engine may fill, of as many epochs as the steps of a demand say nothing about."""
    training = {"batch_size": batch_size, "precision": precision, "epochs": 10}
    return order(engine=engine, training=training, **sections)


def five() -> dict[str, tuple[Demand, Workload]]:
    """The five trainings of the planner's bench."""
    return {
        "digits-cnn": (digits(), ordered(batch_size=64, precision="fp32")),
        "resnet50": (
            demand_of(RESNET50, micro_batch=256, steps=450_000, family="resnet50", loader_samples_per_core_s=400.0),
            ordered(batch_size=256),
        ),
        "gpt2-124m": (demand_of(GPT2, micro_batch=64, steps=2000, family="gpt2"), ordered(batch_size=64)),
        "7b-full": (demand_of(LLAMA_7B, micro_batch=128, steps=1000, family="llama"), ordered(batch_size=128)),
        "7b-adapter": (demand_of(ADAPTER_7B, micro_batch=64, steps=1000, family="llama"), ordered(batch_size=64)),
    }
