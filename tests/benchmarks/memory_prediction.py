"""Predicted peak memory of training steps against real ones: tables from fake tensors, peaks from profiler events.

The predictions are `memory_of` on traced cases, as the planner asks for them. The peaks are sums of the allocator's own
events while two real steps run on a CPU. Ends with one JSON line. Figures: ``configs``, ``median_abs_error``,
``worst_underprediction`` (0 where none is too low), ``formula_median_abs_error`` (weights, gradients and optimizer
state, 16 bytes per parameter with Adam) and ``accelerate_median_abs_error`` (what accelerate's estimate-memory says for
training with Adam).

The kernel workspace in the predictions was read off single convolutions and checked on the families in ``FITTED``,
none of which is scored, as one worker and as a shard.

The peak of a shard is the higher one of two processes that exchange over gloo, whose reduce-scatter clones its input;
the traced one clones it too (`tests.support.traced.as_on_gloo`, from torch's source and not from any measured peak).
Nothing is taken off its measurement: the harness makes the training thread the last holder of every tensor, since the
profiler books nothing that another thread frees (`tests.support.measured_memory`). Each shard is measured
``REPEATS`` times, the highest peak counts, and ``sharded_spread`` in the context says how far they lay apart.
"""

from __future__ import annotations

import json
import multiprocessing
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

ENVIRONMENT = "bench"
REPO = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO))

import torch  # noqa: E402 - after the path
from accelerate.commands.estimate import estimate_training_usage  # noqa: E402 - after the path
from accelerate.utils.modeling import calculate_maximum_sizes  # noqa: E402 - after the path
from torch import distributed, nn  # noqa: E402 - after the path

from include.core.contracts.plan import Recompute  # noqa: E402 - after the path
from include.parallel.layout import Execution  # noqa: E402 - after the path
from include.sizing.trace import StepShape  # noqa: E402 - after the path
from include.training.models import small_cnn, transformer  # noqa: E402 - after the path
from include.training.tasks.task import next_token_loss_sum  # noqa: E402 - after the path
from tests.support import model_families as families  # noqa: E402 - after the path
from tests.support.measured_memory import measured_peak, measured_sharded_peak  # noqa: E402 - after the path
from tests.support.traced import as_on_gloo, traced_memory  # noqa: E402 - after the path

WORLD = 2
REPEATS = 2
CLASSES = 100
FITTED = ("vgg", "densenet", "xception")
_BUILDERS: dict[str, Callable[..., nn.Module]] = {
    "cnn": small_cnn.build,
    "mobilenet": families.mobilenet,
    "resnet50": families.resnet50,
    "vit": families.vit,
    "vgg": families.vgg,
    "densenet": families.densenet,
    "xception": families.xception,
}
# Formula: bytes per parameter of weights, gradients and optimizer state in fp32.
_STATE_BYTES = {"adam": 16, "adamw": 16, "sgd": 12}


@dataclass(frozen=True)
class Config:
    """One step: family, side of the image or length of the row, and how it is trained."""

    family: str
    side: int
    batch: int
    precision: str = "fp32"
    recompute: Recompute = "off"
    optimizer: str = "adamw"
    shard: int = 1
    width: int = 0

    @property
    def name(self) -> str:
        parts = [self.family, self.side, f"b{self.batch}", self.precision, self.recompute, self.optimizer]
        return "-".join(map(str, parts)) + (f"-shard{self.shard}" if self.shard > 1 else "")

    def shape(self) -> StepShape:
        execution = Execution(micro_batch=self.batch, precision=self.precision, recompute=self.recompute)
        if self.family == "gpt2":
            vocabulary, row = 2000, (self.side,)
            build = partial(transformer.build, row, vocabulary, width=self.width or 256, depth=6, heads=4, dropout=0.1)
            return StepShape(
                build=build, input_shape=row, classes=vocabulary, batch=self.batch, optimizer=self.optimizer,
                execution=execution, loss_sum=next_token_loss_sum, target_shape=row,
            )  # fmt: skip
        image = (1 if self.family == "cnn" else 3, self.side, self.side)
        options = {"width": self.width} if self.width else {}
        return StepShape(
            build=partial(_BUILDERS[self.family], image, CLASSES, **options), input_shape=image, classes=CLASSES,
            batch=self.batch, optimizer=self.optimizer, execution=execution,
        )  # fmt: skip


def scored() -> list[Config]:
    """Steps that are scored. Half precision is emulated by a CPU without it, hence the small ones."""
    return [
        *(Config("cnn", 28, batch, optimizer=optimizer) for batch in (32, 256) for optimizer in ("adamw", "sgd")),
        Config("cnn", 28, 256, optimizer="adam"),
        Config("cnn", 28, 256, recompute="block"),
        Config("cnn", 28, 32, precision="bf16"),
        *(Config("mobilenet", 96, batch) for batch in (4, 16, 32)),
        Config("mobilenet", 96, 16, optimizer="sgd"),
        Config("mobilenet", 96, 16, recompute="block"),
        Config("mobilenet", 96, 16, recompute="selective"),
        Config("mobilenet", 64, 4, precision="bf16"),
        Config("mobilenet", 64, 4, precision="bf16", recompute="block"),
        *(Config("resnet50", 96, batch, optimizer="sgd") for batch in (2, 8, 24)),
        Config("resnet50", 96, 8, optimizer="adam"),
        Config("resnet50", 96, 24, recompute="block"),
        Config("resnet50", 32, 2, precision="bf16", optimizer="sgd"),
        *(Config("gpt2", 128, batch) for batch in (2, 8, 16)),
        Config("gpt2", 256, 4, optimizer="adam"),
        Config("gpt2", 128, 8, recompute="block"),
        Config("gpt2", 128, 8, recompute="selective"),
        Config("gpt2", 64, 4, precision="bf16", width=128),
        Config("gpt2", 64, 4, precision="bf16", recompute="block", width=128),
        *(Config("vit", 96, batch) for batch in (4, 32)),
        Config("vit", 96, 32, optimizer="sgd", recompute="block"),
        Config("vit", 96, 32, recompute="selective"),
        Config("vit", 64, 8, precision="bf16", width=96),
        Config("gpt2", 128, 8, shard=WORLD),
        Config("gpt2", 128, 8, shard=WORLD, recompute="block"),
        Config("gpt2", 64, 4, precision="bf16", shard=WORLD, width=128),
        Config("vit", 96, 4, shard=WORLD),
        Config("vit", 96, 16, shard=WORLD, optimizer="sgd"),
        Config("resnet50", 64, 4, shard=WORLD, optimizer="sgd"),
    ]


def fitted() -> list[Config]:
    """Steps on which the workspace was checked; not scored."""
    return [
        *(
            Config(family, 48, batch, precision=precision, recompute=recompute)
            for family in FITTED
            for precision, batch in (("fp32", 8), ("bf16", 2))
            for recompute in ("off", "block")
        ),
        Config("vgg", 48, 8, shard=WORLD),
        Config("vgg", 48, 8, shard=WORLD, recompute="block"),
        Config("xception", 48, 8, shard=WORLD, optimizer="sgd"),
    ]


def measure_group(config: Config) -> int:
    """Real peak of a sharded step: the higher one of two fresh gloo processes."""
    with tempfile.TemporaryDirectory() as folder:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        context = multiprocessing.get_context("spawn")
        workers = [context.Process(target=_work, args=(rank, port, config, folder)) for rank in range(WORLD)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return max(int((Path(folder) / str(rank)).read_text()) for rank in range(WORLD))


def _work(rank: int, port: int, config: Config, folder: str) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=WORLD)
    torch.manual_seed(0)  # both workers build the same weights
    (Path(folder) / str(rank)).write_text(str(measured_sharded_peak(config.shape(), world=WORLD)))
    distributed.destroy_process_group()


def formula_bytes(config: Config, parameters: int) -> float:
    return parameters * _STATE_BYTES[config.optimizer] / config.shard


def accelerate_bytes(config: Config, model: nn.Module) -> float:
    size, _ = calculate_maximum_sizes(model)
    usage = estimate_training_usage(size, "float32" if config.precision == "fp32" else "bfloat16")
    return max(usage.values()) / config.shard


def score(config: Config) -> dict:
    peaks = [measured_peak(config.shape())] if config.shard == 1 else [measure_group(config) for _ in range(REPEATS)]
    measured = max(peaks)
    started = time.perf_counter()
    with as_on_gloo():
        predicted = traced_memory(config.shape(), shard=config.shard).total_bytes
    seconds = time.perf_counter() - started
    model = config.shape().build()
    parameters = sum(p.numel() for p in model.parameters())
    others = {"formula": formula_bytes(config, parameters), "accelerate": accelerate_bytes(config, model)}
    return {
        "name": config.name,
        "predicted_mib": round(predicted / 2**20, 2),
        "measured_mib": round(measured / 2**20, 2),
        "error": predicted / measured - 1,
        "spread": max(peaks) / min(peaks) - 1,
        "trace_s": round(seconds, 2),
        **{name: value / measured - 1 for name, value in others.items()},
    }


def run(configs: list[Config]) -> list[dict]:
    rows = []
    for config in configs:
        torch.manual_seed(0)
        rows.append(score(config))
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    return rows


def median_abs(rows: list[dict], key: str) -> float:
    return round(statistics.median(abs(row[key]) for row in rows), 5)


def main() -> None:
    torch.set_num_threads(1)
    started = time.perf_counter()
    rows, checked = run(scored()), run(fitted())
    figures = {
        "configs": len(rows),
        "median_abs_error": median_abs(rows, "error"),
        "worst_underprediction": round(max(0.0, -min(row["error"] for row in rows)), 5),
        "formula_median_abs_error": median_abs(rows, "formula"),
        "accelerate_median_abs_error": median_abs(rows, "accelerate"),
    }
    context = {
        "torch": torch.__version__,
        "device": "cpu, one thread",
        "seconds": round(time.perf_counter() - started, 1),
        "worst_overprediction": round(max(row["error"] for row in rows), 5),
        "sharded": f"{sum('shard' in row['name'] for row in rows)} configurations on {WORLD} gloo processes",
        "sharded_spread": round(max(row["spread"] for row in rows), 5),
        "fitted_on": {row["name"]: round(row["error"], 5) for row in checked},
        "errors": {row["name"]: round(row["error"], 5) for row in rows},
    }
    print(json.dumps({"bench": "memory_prediction", "figures": figures, "context": context}))


if __name__ == "__main__":
    main()
