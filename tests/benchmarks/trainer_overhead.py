"""What the training loop costs beyond a bare one: CPU time per step, beside Lightning and Accelerate.

Two fixed models with bare steps of about 1 and 10 ms. All contenders take the same batches in the same order through
the same model and optimizer; none of them logs or saves beyond the least it does by itself. Ours runs whole: count of
the loss, notice, account that survives a kill, telemetry, progress, deterministic operators. Rounds are interleaved in
one process; contenders are compared within a round, and the figures are medians over the rounds.

Ends with one JSON line. Figures: ``vs_bare`` (CPU time of ours over bare, 10 ms), ``extra_us_per_step`` (ours less
bare, 1 ms), ``lightning_vs_bare`` and ``accelerate_vs_bare`` (10 ms).
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import logging
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch
from torch import nn

from include.config.training_section import TrainingSection
from include.core.contracts.plan import Layout
from include.parallel.layout import apply_layout
from include.parallel.mesh import Place
from include.parallel.spread import spread_model
from include.training.batches import Batch
from include.training.loop import Trainer
from include.training.progress import Progress, StepAccount
from include.training.session import make_exact
from include.training.state import TrainState
from include.training.stop import LOOK_EVERY_S, StopFlag
from include.training.tasks.task import TASKS
from include.training.telemetry.recording import recording
from include.training.telemetry.step_timer import StepTimer

ENVIRONMENT = "bench"  # `make bench` runs this file where the peers are installed
ROUNDS = 7
# Steps at the start of a pass that are not counted.
WARM = 5
CLASSES = 10
# Name -> width, hidden layers, rows of a batch, steps of a round. A pass takes about two seconds: in a shorter one
# what telemetry does once per training would weigh as much as a second of steps.
MODELS = {"1 ms": (128, 2, 32, 2000), "10 ms": (384, 3, 128, 200)}
LR = 1e-4


class Order:
    """Batches by number; notes the CPU time of the process when the first counted one and the last one are taken.

    What a contender spends before its loop and after it is thus no part of its steps.
    """

    def __init__(self, made: list[tuple[torch.Tensor, torch.Tensor]], steps: int) -> None:
        self._made, self._steps = made, steps
        self.began_s = self.ended_s = 0.0

    def __len__(self) -> int:
        return self._steps

    def __getitem__(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        if step == WARM:
            self.began_s = time.process_time()
        elif step == self._steps - 1:
            self.ended_s = time.process_time()
        elif step >= self._steps:
            raise IndexError(step)
        return self._made[step % len(self._made)]

    @property
    def cpu_s_per_step(self) -> float:
        return (self.ended_s - self.began_s) / (self._steps - 1 - WARM)


class Prepared:
    """Batches that are there already: the loader is measured elsewhere."""

    def __init__(self, width: int, rows: int, steps: int) -> None:
        random = torch.Generator().manual_seed(0)
        self.rows = rows * steps
        self._rows = rows
        self.batches_made = [
            (torch.rand(rows, width, generator=random), torch.randint(0, CLASSES, (rows,), generator=random))
            for _ in range(16)
        ]
        self.order = Order(self.batches_made, steps)

    def steps_per_epoch(self, batch_size: int) -> int:
        return len(self.order)

    def batches(self, *, offset: int, batch_size: int, rank: int, world: int) -> Iterator[Batch]:
        while True:
            for inputs, targets in self.order:
                yield Batch(inputs=inputs, targets=targets, rows_global=self._rows)


class NoCheckpoints:
    """Saving is measured elsewhere."""

    last_step, last_uri, save_seconds = 0, "", ()

    def save(self, *_: object, **__: object) -> None: ...

    def settle(self) -> None: ...


def build(width: int, layers: int) -> nn.Module:
    torch.manual_seed(0)
    hidden: list[nn.Module] = []
    for _ in range(layers):
        hidden += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*hidden, nn.Linear(width, CLASSES))


def bare(data: Prepared, model: nn.Module) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR)
    model.train()
    for inputs, targets in data.order:
        loss = nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def ours(data: Prepared, model: nn.Module) -> None:
    rows = len(data.order[0][1])
    training = TrainingSection(epochs=1, batch_size=rows, lr=LR, schedule="constant")
    layout = Layout(micro_batch=rows)
    timer = StepTimer()
    validation = Prepared(data.order[0][0].shape[1], 1, 1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        trainer = Trainer(
            state=TrainState(model=model, optimizer=torch.optim.AdamW(model.parameters(), lr=LR)),
            training=training,
            task=TASKS["classification"],
            execution=apply_layout(layout, batch_size=rows),
            spread=spread_model(model, layout, Place(mesh=None, data_rank=0, data_parallel=1, world=1)),
            device=torch.device("cpu"),
            source=data,
            validation=validation,
            checkpoints=NoCheckpoints(),
            every=10**9,
            stop=StopFlag(path, look_every_s=LOOK_EVERY_S),
            progress=Progress(job_dir=path, total=len(data.order), epochs=1),
            account=StepAccount(job_dir=path, resumed_step=0),
            timer=timer,
        )
        with recording(timer, folder=path, device=torch.device("cpu"), rank=0, world=1, dcgm_url="http://127.0.0.1:9/"):
            assert trainer.run()


def with_lightning(data: Prepared, model: nn.Module) -> None:
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], _: int) -> torch.Tensor:
            return nn.functional.cross_entropy(self.model(batch[0]), batch[1])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters(), lr=LR)

    with tempfile.TemporaryDirectory() as folder:
        trainer = lightning.Trainer(
            max_epochs=1,
            accelerator="cpu",
            devices=1,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=folder,
        )
        trainer.fit(Module(), torch.utils.data.DataLoader(data.order, batch_size=None))


def with_accelerate(data: Prepared, model: nn.Module) -> None:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    loader = torch.utils.data.DataLoader(data.order, batch_size=None)
    model, optimizer, loader = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=LR), loader)
    model.train()
    for inputs, targets in loader:
        with accelerator.accumulate(model):
            loss = nn.functional.cross_entropy(model(inputs), targets)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()


CONTENDERS: dict[str, Callable[[Prepared, nn.Module], None]] = {
    "bare": bare,
    "ours": ours,
    "lightning": with_lightning,
    "accelerate": with_accelerate,
}


def cpu_s_per_step(
    contender: Callable[[Prepared, nn.Module], None], data: Prepared, model: nn.Module, *, exact: bool
) -> float:
    """CPU seconds of the whole process, all its threads, per step of one pass."""
    if exact:
        make_exact(1)
    gc.collect()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        contender(data, model)
    torch.use_deterministic_algorithms(False)
    return data.order.cpu_s_per_step


def measure(width: int, layers: int, rows: int, steps: int) -> dict[str, list[float]]:
    """CPU seconds per step by contender, one value per round."""
    data = Prepared(width, rows, steps)
    seconds: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    for number in range(ROUNDS + 1):
        for name, contender in CONTENDERS.items():
            spent = cpu_s_per_step(contender, data, build(width, layers), exact=name == "ours")
            if number:  # the first round imports and warms
                seconds[name].append(spent)
    return seconds


def main() -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    found = {name: measure(*shape) for name, shape in MODELS.items()}
    medians = {name: {who: statistics.median(all_) for who, all_ in found[name].items()} for name in found}
    # Neighbours slow whole rounds, so contenders are compared within a round.
    ratios = {
        who: statistics.median(
            mine / base for mine, base in zip(found["10 ms"][who], found["10 ms"]["bare"], strict=True)
        )
        for who in CONTENDERS
    }
    extra = statistics.median(
        mine - base for mine, base in zip(found["1 ms"]["ours"], found["1 ms"]["bare"], strict=True)
    )
    figures = {
        "vs_bare": round(ratios["ours"], 4),
        "extra_us_per_step": round(extra * 1e6, 1),
        "lightning_vs_bare": round(ratios["lightning"], 4),
        "accelerate_vs_bare": round(ratios["accelerate"], 4),
    }
    context = {
        "rounds": ROUNDS,
        "median_cpu_ms_per_step": {
            name: {who: round(1e3 * value, 4) for who, value in by.items()} for name, by in medians.items()
        },
        "min_max_cpu_ms_per_step": {
            name: {who: [round(1e3 * min(v), 4), round(1e3 * max(v), 4)] for who, v in by.items()}
            for name, by in found.items()
        },
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
    }
    print(json.dumps({"bench": "trainer_overhead", "figures": figures, "context": context}))


if __name__ == "__main__":
    main()
