"""Verdicts over trainings of which the cause is known: small real ones, and series of devices made from descriptions.

The real ones run in this process through the worker's own session (the straggler in two): streamed pictures that are
slow to decode, a slow store, no loader worker, saves that never end, healthy ones. One that waits for its data is then
fixed, and both runs are shown by their telemetry and by torch.profiler. The series come in two halves; rules were
worked on with the first one only.

Ends with one JSON line. Figures: ``cases``, ``correct`` (the verdict is the expected one), ``false_alarms`` (healthy
cases that got another verdict than ok, and unknown ones that got a finding).
"""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
os.environ.setdefault("OMP_NUM_THREADS", "1")

from moto.server import ThreadedMotoServer

from include.core.store import ObjectStore
from include.training.diagnosis import diagnose
from include.training.telemetry_report import AttemptTelemetry
from tests.support import diagnosis_runs as runs
from tests.support.diagnosis_cases import first_half, second_half

LARGE_MLP = {"factory": "mlp", "arguments": {"hidden": [1024, 1024]}}
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench", "AWS_REGION": "us-east-1"}


class RealRuns:
    """The real trainings, each in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _place(self, name: str, store: ObjectStore | None = None) -> runs.Place:
        place = self._folder / name
        return runs.Place(folder=place, store=store or ObjectStore(f"file://{place}/store"), name=name)

    def slow_decoder(self) -> AttemptTelemetry:
        """Pictures of 240 x 240 for a model that sees 32 x 32, decoded by one worker."""
        place = self._place("slow-decoder")
        manifest = runs.put_pictures(place.store, rows=3200, side=240)
        return runs.published(place, [runs.train(place, runs.streamed(place, manifest, workers=1), steps=50)])

    def slow_store(self) -> AttemptTelemetry:
        """Shards of 100 rows that wait for a third of a second each."""
        with s3_store() as store, runs.slow_store(0.3):
            place = self._place("slow-store", store)
            manifest = runs.put_pictures(store, rows=3200, side=runs.SIDE, shards=32)
            source = runs.streamed(place, manifest, workers=0)
            return runs.published(place, [runs.train(place, source, steps=50)])

    def too_few_workers(self, *, profile_steps: int = 0, name: str = "too-few-workers") -> AttemptTelemetry:
        """Pictures that the loop itself decodes."""
        place = self._place(name)
        manifest = runs.put_pictures(place.store, rows=6400, side=96)
        source = runs.streamed(place, manifest, workers=0)
        folder = runs.train(place, source, steps=100, profile_steps=profile_steps)
        return runs.published(place, [folder])

    def decoded_once(self, *, profile_steps: int = 0) -> AttemptTelemetry:
        """The same pictures, decoded once before the training."""
        place = self._place("decoded-once")
        manifest = runs.put_pictures(place.store, rows=6400, side=96)
        source = runs.in_memory(6400, source=runs.streamed(place, manifest, workers=0))
        folder = runs.train(place, source, steps=300, profile_steps=profile_steps)
        return runs.published(place, [folder])

    def save_stall(self) -> AttemptTelemetry:
        """A checkpoint of 50 MB every four steps."""
        place = self._place("save-stall")
        folder = runs.train(place, runs.in_memory(1280), model=LARGE_MLP, steps=40, checkpoint_every_steps=4)
        return runs.published(place, [folder])

    def straggler(self) -> AttemptTelemetry:
        """Two workers, of which the second one needs 10 ms longer in each forward pass."""
        place = self._place("straggler")
        return runs.published(place, runs.train_with_a_straggler(place, port=free_port()))

    def healthy(self) -> AttemptTelemetry:
        """Rows in memory and one checkpoint."""
        place = self._place("healthy")
        folder = runs.train(place, runs.in_memory(6400), steps=400, checkpoint_every_steps=400)
        return runs.published(place, [folder])


@contextmanager
def s3_store() -> Iterator[ObjectStore]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    os.environ.update({**CREDENTIALS, "AWS_ENDPOINT_URL": f"http://{host}:{port}"})
    try:
        import boto3

        boto3.client("s3").create_bucket(Bucket="bench")
        yield ObjectStore("s3://bench/root")
    finally:
        server.stop()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def shown(telemetry: AttemptTelemetry, store_folder: Path | None = None) -> dict[str, Any]:
    """What people look at: throughput, share of waiting, and what the profiler saw."""
    steps = telemetry.ranks[0].steps
    found = {
        "verdict": telemetry.diagnosis.verdict.value,
        "reason": telemetry.diagnosis.reason,
        "fix": telemetry.diagnosis.fix,
        "samples_per_s": round(steps.samples_per_s, 1),
        "step_p50_ms": round(1000 * steps.step_p50_s, 3),
        "data_wait_share": round(steps.share("data_wait"), 3),
    }
    summary = next((uri for uri in telemetry.traces if uri.endswith(".summary.json")), None)
    if summary:
        profile = json.loads(Path(summary.removeprefix("file://")).read_text())
        found["profiler"] = {
            "outside_operators_share": round(profile["outside_us"] / profile["step_us"], 3),
            "operators_us": profile["self_cpu_us"],
            "step_us": profile["step_us"],
            "largest": [item["operator"] for item in profile["operators"][:3]],
        }
    return found


def judged(name: str, expected: str, verdict: str, reason: str) -> dict[str, Any]:
    return {"case": name, "expected": expected, "verdict": verdict, "correct": verdict == expected, "reason": reason}


def main() -> None:
    results, seconds = [], {}
    with tempfile.TemporaryDirectory() as folder:
        real = RealRuns(Path(folder))
        for name, expected in (
            ("slow_decoder", "data-bound"),
            ("slow_store", "data-bound"),
            ("too_few_workers", "data-bound"),
            ("save_stall", "save stall"),
            ("straggler", "straggler"),
            ("healthy", "ok"),
        ):
            began = time.perf_counter()
            found = getattr(real, name)().diagnosis
            seconds[name] = round(time.perf_counter() - began, 1)
            results.append(judged(f"real: {name}", expected, found.verdict.value, found.reason))
        before = shown(real.too_few_workers(profile_steps=3, name="before"))
        after = shown(real.decoded_once(profile_steps=3))
        results.append(judged("real: the fixed run", "ok", after["verdict"], after["reason"]))
    halves = {"first": first_half(), "held_out": second_half()}
    for half, cases in halves.items():
        for case in cases:
            found = diagnose(case.ranks)
            results.append(judged(f"{half}: {case.name}", case.expected, found.verdict.value, found.reason))
    quiet = ("ok", "unknown")
    false_alarms = [r for r in results if r["expected"] in quiet and r["verdict"] not in quiet]
    per_half = {h: sum(r["correct"] for r in results if r["case"].startswith(h)) for h in ("real", *halves)}
    figures = {
        "cases": len(results),
        "correct": sum(r["correct"] for r in results),
        "false_alarms": len(false_alarms),
    }
    print(
        json.dumps(
            {
                "bench": "diagnosis",
                "figures": figures,
                "context": {
                    "correct_by_part": per_half,
                    "cases_by_part": {h: sum(r["case"].startswith(h) for r in results) for h in per_half},
                    "wrong": [r for r in results if not r["correct"]],
                    "real": [r for r in results if r["case"].startswith("real")],
                    "fixed_run": {"before": before, "after": after},
                    "seconds": seconds,
                },
            }
        )
    )


if __name__ == "__main__":
    main()
