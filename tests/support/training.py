"""Small datasets and orders for trainings that take a moment, and jobs that can be disturbed while they train."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from include.config.job_messages import JobRequest
from include.config.settings import Settings
from include.config.workload import Workload
from include.core.contracts.dataset import SPLITS, DatasetManifest, DatasetRef, Feature, Shard
from include.core.json_codec import to_json
from include.core.store import ObjectStore
from include.data.manifest import manifest_key
from include.training.progress import read_account
from tests.support.jobs import build_request, job_environment, workload

FEATURES = 16
CLASSES = ("a", "b", "c")
ROWS = {"train": 100, "validation": 40, "test": 40}


def write_dataset(
    store: ObjectStore,
    *,
    fingerprint: str = "tiny",
    rows: dict[str, int] = ROWS,
    shape: tuple[int, ...] = (FEATURES,),
) -> DatasetRef:
    """Three clouds of points around three centres; the same rows for every store."""
    random = np.random.default_rng(3)
    centres = random.normal(size=(len(CLASSES), FEATURES))
    shards = []
    for split in SPLITS:
        labels = random.integers(0, len(CLASSES), size=rows[split])
        points = centres[labels] + random.normal(scale=0.5, size=(rows[split], FEATURES))
        columns: dict[str, Any] = {f"f{i}": points[:, i] for i in range(FEATURES)}
        columns["label"] = [CLASSES[i] for i in labels]
        buffer = io.BytesIO()
        pq.write_table(pa.table(columns), buffer)
        data, key = buffer.getvalue(), f"datasets/{fingerprint}/{split}-0.parquet"
        store.put(key, data)
        digest = hashlib.sha256(data).hexdigest()
        shards.append(Shard(key=key, split=split, rows=rows[split], size_bytes=len(data), sha256=digest))
    manifest = DatasetManifest(
        fingerprint=fingerprint,
        task="classification",
        label="label",
        classes=CLASSES,
        features=tuple(Feature(name=f"f{i}", kind="numeric") for i in range(FEATURES)),
        input_shape=shape,
        shards=tuple(shards),
    )
    store.put_json(manifest_key(fingerprint), to_json(manifest))
    return DatasetRef(uri=store.uri(manifest_key(fingerprint)), fingerprint=fingerprint, rows=rows)


CNN = {"factory": "cnn", "arguments": {"width": 4, "hidden": 8}}


def tiny_workload(*, hidden: tuple[int, ...] = (16,), model: dict[str, Any] | None = None, **training: Any) -> Workload:
    """A perceptron with dropout; 100 rows in batches of 32 make 4 steps per epoch, the last one short."""
    settings = {"epochs": 3, "batch_size": 32, "lr": 0.01, "seed": 5, **training}
    perceptron = {"factory": "mlp", "arguments": {"hidden": list(hidden), "dropout": 0.2}}
    return workload("digits", training=settings, model=model or perceptron)


def train_request(dataset: DatasetRef, *, attempt: int = 1, order: Workload | None = None, **fields: Any) -> JobRequest:
    """Request of one attempt of the same run."""
    return build_request("train", order=order or tiny_workload(), attempt=attempt, dataset=dataset, **fields)


class RunningJob:
    """A train job in a process of its own that a test watches and disturbs."""

    def __init__(self, request: JobRequest, *, store: ObjectStore, settings: Settings, job_dir: Path) -> None:
        self.store, self.base, self.job_dir = store, request.base, job_dir
        key = f"{request.base}/request.json"
        store.put_json(key, request.model_dump(mode="json"))
        job_dir.mkdir(parents=True)
        self.log_file = job_dir / "log.txt"
        with self.log_file.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "include.jobs", "train", store.uri(key)],
                env=job_environment(settings, job_dir),
                cwd=job_dir,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def wait_for_step(self, step: int, timeout_s: float = 120, *, of: str = "last_executed_step") -> None:
        """Wait until the training has executed a step, or has come to it in another entry of its account."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            assert self.process.poll() is None, self.log()
            if self.account().get(of, 0) >= step:
                return
            time.sleep(0.005)
        raise AssertionError(f"step {step} was not reached\n{self.log()}")

    def account(self) -> dict[str, Any]:
        return read_account(self.job_dir) or {"last_executed_step": 0}

    def committed_step(self) -> int:
        """Newest step with a commit in the store, 0 without any; the account may not know it yet."""
        keys = [key.split("/") for key, _ in self.store.list(self.base.rpartition("/jobs/")[0])]
        return max((int(key[-2].split("-")[1]) for key in keys if key[-1] == "COMMIT.json"), default=0)

    def worker_pid(self) -> int:
        return int(json.loads((self.job_dir / "worker_started.json").read_text())["pid"])

    def wait(self, timeout_s: float = 120) -> int:
        return self.process.wait(timeout=timeout_s)

    def log(self) -> str:
        return self.log_file.read_text()

    def document(self, name: str) -> Any:
        return self.store.get_json(f"{self.base}/{name}.json")
