"""Small real trainings with something wrong, run by the worker's own session, for the diagnosis bench."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from PIL import Image

from include.config.settings import REPO, Settings
from include.core.contracts.dataset import DatasetManifest, DatasetRef, Feature
from include.core.contracts.plan import Layout
from include.core.json_codec import from_json
from include.core.store import ObjectStore
from include.data.stream.cache import ShardCache
from include.data.stream.dataset import StreamDataset
from include.data.stream.loading import StreamPlan
from include.training import session
from include.training.batches import BatchSource, Examples, MemorySource
from include.training.model_factory import build_model
from include.training.outcome import WorkerOrder
from include.training.stop import StopFlag
from include.training.stream_source import StreamSource
from include.training.tasks.data import TaskData
from include.training.telemetry_report import AttemptTelemetry, publish_telemetry
from tests.support.jobs import build_request, workload
from tests.support.streamed import put_shard, tar

CLASSES, SIDE = 10, 32
MLP = {"factory": "mlp", "arguments": {"hidden": [256]}}
NO_DATASET = DatasetRef(uri="none", fingerprint="none", rows={})


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where one run keeps its things."""

    folder: Path
    store: ObjectStore
    name: str


def picture(seed: int, side: int) -> bytes:
    """A JPEG with structure: a random mosaic, scaled up."""
    tiles = np.random.default_rng(seed).integers(0, 256, size=(8, 8, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(tiles).resize((side, side), Image.Resampling.BICUBIC).save(out, "JPEG", quality=90)
    return out.getvalue()


def put_pictures(store: ObjectStore, *, rows: int, side: int, shards: int = 16) -> DatasetManifest:
    """Pictures of ten classes in tar archives, told to be 32 x 32 to the model."""
    found, per_shard = [], rows // shards
    pictures = [picture(seed, side) for seed in range(50)]
    for number in range(shards):
        members = []
        for row in range(number * per_shard, (number + 1) * per_shard):
            members += [(f"{row:06d}.jpg", pictures[row % 50]), (f"{row:06d}.cls", str(row % CLASSES).encode())]
        found.append(put_shard(store, f"pictures/{side}/{number:03d}.tar", tar(members), rows=per_shard))
    return DatasetManifest(
        fingerprint=f"pictures-{side}",
        task="classification",
        label="cls",
        classes=tuple(map(str, range(CLASSES))),
        features=(Feature(name="pixels", kind="pixels"),),
        input_shape=(3, SIDE, SIDE),
        shards=tuple(found),
    )


def streamed(place: Place, manifest: DatasetManifest, *, workers: int) -> StreamSource:
    plan = StreamPlan(
        store=place.store.url,
        manifest=manifest,
        split="train",
        seed=1,
        cache=place.folder / "shards",
        cache_bytes=2**30,
        block_shards=2,
    )
    return StreamSource(StreamDataset(plan, workers=workers))


def in_memory(rows: int, *, source: BatchSource | None = None) -> MemorySource:
    """Rows in memory: random ones, or those of a source, decoded once."""
    if source is None:
        generator = torch.Generator().manual_seed(3)
        inputs = torch.rand(rows, 3, SIDE, SIDE, generator=generator)
        return MemorySource(Examples(inputs=inputs, labels=torch.arange(rows) % CLASSES), seed=1)
    batch = next(source.batches(offset=0, batch_size=rows, rank=0, world=1))
    return MemorySource(Examples(inputs=batch.inputs, labels=batch.targets), seed=1)


@contextlib.contextmanager
def slow_store(seconds: float) -> Iterator[None]:
    """A store that lets each shard wait."""
    whole = ShardCache._download

    def late(*arguments: object) -> None:
        time.sleep(seconds)
        whole(*arguments)

    with mock.patch.object(ShardCache, "_download", late):
        yield


def slow_forward(seconds: float) -> Callable[..., torch.nn.Module]:
    """A factory whose models are slow: their forward pass keeps a core busy for longer."""

    def burn(*_: object) -> None:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            sum(range(1000))

    def build(*arguments: object, **more: object) -> torch.nn.Module:
        model = build_model(*arguments, **more)
        model.register_forward_pre_hook(burn)
        return model

    return build


def train(
    place: Place,
    source: BatchSource,
    *,
    batch_size: int = 64,
    steps: int = 120,
    model: dict = MLP,
    profile_steps: int = 0,
    factory: Callable[..., torch.nn.Module] = build_model,
    rank: int = 0,
    world: int = 1,
    port: int = 0,
    **training: object,
) -> Path:
    """One attempt in this process.

    Returns:
        The worker's folder, with its telemetry in it.
    """
    per_epoch = source.steps_per_epoch(batch_size)
    order = workload(
        "digits",
        model=model,
        training={"epochs": max(1, steps // per_epoch), "batch_size": batch_size, "seed": 1, **training},
    )
    request = build_request(
        "train",
        order=order,
        run_id=place.name,
        dataset=NO_DATASET,
        layout=Layout(micro_batch=batch_size // world, replicate=world),
        inputs={"profile_steps": profile_steps},
    )
    job_dir = place.folder / f"{place.name}-{rank}"
    job_dir.mkdir(parents=True)
    data = TaskData(
        train=source, validation=in_memory(64), input_shape=(3, SIDE, SIDE), classes=CLASSES, fingerprint="bench"
    )
    settings = Settings(store=place.store.url, work_root=place.folder, torch_threads=1)
    where = {"RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": "0", "GLOO_SOCKET_IFNAME": "lo"}
    with (
        mock.patch.dict(os.environ, {**where, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}),
        mock.patch.object(session, "open_data", return_value=data),
        mock.patch.object(session, "build_model", factory),
    ):
        try:
            outcome = session.train(
                WorkerOrder(request=request, settings=settings, job_dir=job_dir), stop=StopFlag(job_dir)
            )
        finally:
            torch.distributed.destroy_process_group()
    assert outcome.status == "done", outcome
    return job_dir


def published(place: Place, folders: list[Path]) -> AttemptTelemetry:
    """What the launcher makes of the workers' files."""
    base = f"runs/bench/{place.name}/jobs/train-1"
    assert publish_telemetry(folders, store=place.store, base=base) is not None
    return from_json(AttemptTelemetry, place.store.get_json(f"{base}/telemetry.json"))


def train_with_a_straggler(place: Place, *, port: int, slower_s: float = 0.01) -> list[Path]:
    """Two workers in processes of their own, of which the second one computes longer."""
    code = (
        "import sys; from pathlib import Path; from tests.support import diagnosis_runs as runs; "
        "rank = int(sys.argv[1]); place = runs.Place(folder=Path(sys.argv[2]), "
        "store=runs.ObjectStore(sys.argv[3]), name=sys.argv[4]); "
        "runs.train(place, runs.in_memory(640), rank=rank, world=2, port=int(sys.argv[5]), steps=60, "
        "factory=runs.slow_forward(float(sys.argv[6])) if rank else runs.build_model)"
    )
    arguments = [str(place.folder), place.store.url, place.name, str(port), str(slower_s)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{REPO}{os.pathsep}{REPO / 'plugins'}"}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(rank), *arguments],
            cwd=REPO,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    for process in started:
        _, error = process.communicate(timeout=120)
        assert process.returncode == 0, error
    return [place.folder / f"{place.name}-{rank}" for rank in range(2)]
