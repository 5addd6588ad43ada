"""How fast small pictures come out of loaders: 20,000 JPEGs of 64 x 64, batches of 64, one epoch, every one decodes.

Contenders: a plain ``DataLoader`` over files, WebDataset over tar archives of 1 MB, litdata over chunks of its own of
1 MB, Plimsoll over the same archives as WebDataset; 0, 1 and 2 worker processes. All give batches of uint8 with shape
[64, 64, 64, 3], shuffled. Each run is a process of its own, on one machine, rounds interleaved; the clock starts after
the first batches, so starting processes is not counted. litdata's own decoder needs torchvision, which has no build for
every torch: it decodes with Pillow as the others do, and once more in Plimsoll's way (``vs_litdata_same_decoder``).

Ends with one JSON line. Figures: ``vs_files``, ``vs_webdataset``, ``vs_litdata`` (rate of ours over theirs from local
disk: median of the rounds, the lowest over 0, 1, 2 workers), ``warm_cache_vs_local`` (ours with archives on an S3
server and a full cache over ours on local disk, also the lowest).
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from include.config.settings import REPO
from tests.support.loader_data import BUCKET, PICTURES, LoopbackS3, make_data

ENVIRONMENT = "bench"  # `make bench` runs this file where the peers are installed
ROUNDS = 3
WORKERS = (0, 1, 2)
ROOT = Path(tempfile.gettempdir()) / "plimsoll-loader-bench"
_CONTENDER = REPO / "tests" / "support" / "loader_contenders.py"


def contend(who: str, **order: Any) -> dict[str, Any]:
    """One contender in a process of its own; its last line is its answer."""
    done = subprocess.run(
        [sys.executable, str(_CONTENDER), json.dumps({"who": who, "rows": PICTURES, "cache": None, **order})],
        env={
            **os.environ,
            "PYTHONPATH": str(REPO),
            "OMP_NUM_THREADS": "1",
            # litdata empties the folders that it works in, and they are shared unless told otherwise.
            "DATA_OPTIMIZER_CACHE_FOLDER": str(ROOT / "work" / "chunks"),
            "DATA_OPTIMIZER_DATA_CACHE_FOLDER": str(ROOT / "work" / "data"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{who} failed\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    if who != "optimize" and (answer["rows"], answer["classes"]) != (PICTURES, PICTURES * 9 // 2):
        raise SystemExit(f"{who} gave other rows: {answer}")
    return answer


def ours(workers: int, *, store: str, cache: str) -> dict[str, Any]:
    return contend(
        "plimsoll", workers=workers, source=store, manifest=str(ROOT / "manifest.json"), cache=str(ROOT / cache)
    )


def local_round(workers: int) -> dict[str, dict[str, Any]]:
    chunks = str(ROOT / "litdata")
    return {
        "files": contend("files", workers=workers, source=str(ROOT / "files")),
        "webdataset": contend("webdataset", workers=workers, source=str(ROOT / "store" / "tars")),
        "plimsoll": ours(workers, store=f"file://{ROOT / 'store'}", cache="unused"),
        "litdata": contend("litdata", workers=workers, source=chunks),
        "litdata_same_decoder": contend("litdata", workers=workers, source=chunks, same_decoder=True),
    }


def s3_round(workers: int, server: LoopbackS3) -> dict[str, dict[str, Any]]:
    """Cold first: the cache is empty. Then warm: it holds everything."""
    out = {}
    for name in ("cache", "litdata-cache"):
        shutil.rmtree(ROOT / name, ignore_errors=True)
    for state in ("cold", "warm"):
        out[f"plimsoll_{state}"] = ours(workers, store=f"s3://{BUCKET}", cache="cache")
    if workers == 1:
        peer = {"workers": 1, "source": f"s3://{BUCKET}/litdata", "cache": str(ROOT / "litdata-cache")}
        for state in ("cold", "warm"):
            out[f"litdata_{state}"] = contend("litdata", **peer, options={"endpoint_url": server.endpoint})
    return out


def lowest(rounds: dict[int, list[dict[str, Any]]], one: str, other: str) -> float:
    """Rate of one over that of the other: median of the rounds, the lowest over the numbers of workers."""
    return min(statistics.median(r[one]["rate"] / r[other]["rate"] for r in of) for of in rounds.values())


def table(rounds: dict[int, list[dict[str, Any]]], what: str) -> dict[str, dict[int, list[float]]]:
    """For each contender and number of workers: median, least and most over the rounds."""
    names = sorted({name for of in rounds.values() for r in of for name in r})
    out: dict[str, dict[int, list[float]]] = {}
    for name in names:
        for workers, of in rounds.items():
            values = [r[name][what] for r in of if name in r]
            if values:
                spread = (statistics.median(values), min(values), max(values))
                out.setdefault(name, {})[workers] = [round(value, 1) for value in spread]
    return out


def main() -> None:
    make_data(ROOT)
    if not (ROOT / "litdata" / "index.json").exists():
        contend("optimize", source=str(ROOT / "files"), target=str(ROOT / "litdata"))
    rounds: dict[int, list[dict[str, Any]]] = {workers: [] for workers in WORKERS}
    with LoopbackS3() as server:
        server.upload(ROOT / "store" / "tars", "tars")
        server.upload(ROOT / "litdata", "litdata")
        for number in range(ROUNDS):
            for workers in WORKERS:
                print(f"round {number + 1} of {ROUNDS}, {workers} workers", file=sys.stderr, flush=True)
                rounds[workers].append({**local_round(workers), **s3_round(workers, server)})
    figures = {f"vs_{peer}": lowest(rounds, "plimsoll", peer) for peer in ("files", "webdataset", "litdata")}
    figures["warm_cache_vs_local"] = lowest(rounds, "plimsoll_warm", "plimsoll")
    print(
        json.dumps(
            {
                "bench": "loader",
                "figures": {name: round(value, 3) for name, value in figures.items()},
                "context": {
                    "rounds": ROUNDS,
                    "pictures": PICTURES,
                    "cores": os.cpu_count(),
                    "vs_litdata_same_decoder": round(lowest(rounds, "plimsoll", "litdata_same_decoder"), 3),
                    "pictures_per_s_median_min_max": table(rounds, "rate"),
                    "cpu_s_of_a_run_with_imports": table(rounds, "cpu_s"),
                },
            }
        )
    )


if __name__ == "__main__":
    main()
