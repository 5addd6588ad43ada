"""One contender of the loader bench, alone in a process: an epoch of decoded batches, and how fast they came.

Runs in the bench environment for the peers and in the project's own for Plimsoll: nothing is imported before it is
known who runs. Called as ``python loader_contenders.py '<json>'``; prints one line of JSON.
"""

from __future__ import annotations

import io
import json
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

BATCH = 64
# Batches before the clock starts: processes are then running and their queues are as full as they get.
WARM_UP = 12


def decoded(data: bytes) -> Any:
    """A picture as everybody decodes it: uint8 [height, width, 3]."""
    import numpy as np
    from PIL import Image

    return np.array(Image.open(io.BytesIO(data)).convert("RGB"))


class Files:
    """A folder of pictures with their classes as folder names, for a plain ``DataLoader``."""

    def __init__(self, root: Path) -> None:
        self.files = sorted(root.rglob("*.jpg"))

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, number: int) -> tuple[Any, int]:
        path = self.files[number]
        return decoded(path.read_bytes()), int(path.parent.name)


def files(order: dict[str, Any]) -> Iterator[Any]:
    from torch.utils.data import DataLoader

    yield from DataLoader(Files(Path(order["source"])), BATCH, shuffle=True, num_workers=order["workers"])


def webdataset(order: dict[str, Any]) -> Iterator[Any]:
    import webdataset as wds

    cache = {"cache_dir": order["cache"]} if order["cache"] else {}
    urls = (
        order["source"] if isinstance(order["source"], list) else sorted(map(str, Path(order["source"]).glob("*.tar")))
    )
    data = wds.WebDataset(urls, shardshuffle=len(urls), seed=1, empty_check=False, **cache).shuffle(1000)
    data = data.decode("rgb8").to_tuple("jpg", "cls").batched(BATCH)
    yield from wds.WebLoader(data, batch_size=None, num_workers=order["workers"])


def litdata(order: dict[str, Any]) -> Iterator[Any]:
    from litdata import StreamingDataLoader, StreamingDataset
    from litdata.streaming import downloader

    # The server on loopback speaks no TLS, and litdata has no option to say so.
    downloader._OBSTORE_CLIENT_OPTIONS["allow_http"] = True

    class Pictures(StreamingDataset):
        def __getitem__(self, index: Any) -> tuple[Any, int]:
            sample = super().__getitem__(index)
            return order["decode"](sample["image"]), sample["class"]

    options = {"storage_options": order["options"], "cache_dir": order["cache"]} if order["cache"] else {}
    data = Pictures(order["source"], shuffle=True, seed=1, **options)
    yield from StreamingDataLoader(data, batch_size=BATCH, num_workers=order["workers"])


def plimsoll(order: dict[str, Any]) -> Iterator[Any]:
    import torch

    from include.core.contracts.dataset import DatasetManifest
    from include.core.json_codec import from_json
    from include.data.stream.dataset import StreamDataset
    from include.data.stream.loading import StreamPlan

    manifest = from_json(DatasetManifest, json.loads(Path(order["manifest"]).read_text()))
    plan = StreamPlan(
        store=order["source"], manifest=manifest, split="train", seed=1, cache=Path(order["cache"]), cache_bytes=2**30
    )
    with closing(StreamDataset(plan, workers=order["workers"]).batches(offset=0, batch_size=BATCH)) as stream:
        for batch in stream:
            yield torch.from_numpy(batch.inputs.copy()), torch.from_numpy(batch.targets.copy())


def optimize(order: dict[str, Any]) -> None:
    """Write litdata's own chunks from the files."""
    import litdata as ld

    inputs = [str(path) for path in sorted(Path(order["source"]).rglob("*.jpg"))]
    ld.optimize(fn=_sample, inputs=inputs, output_dir=order["target"], chunk_bytes=2**20, num_workers=1)


def _sample(path: str) -> dict[str, Any]:
    return {"image": Path(path).read_bytes(), "class": int(Path(path).parent.name)}


def measure(order: dict[str, Any]) -> dict[str, Any]:
    """Samples per second of wall time after the warm-up, CPU seconds of all processes, and what came out."""
    import torch

    torch.set_num_threads(1)
    order["decode"] = _fast if order.get("same_decoder") else decoded
    batches = {"files": files, "webdataset": webdataset, "litdata": litdata, "plimsoll": plimsoll}[order["who"]](order)
    seen, began, counted, total = 0, 0.0, 0, 0
    for number, (pictures, classes) in enumerate(batches):
        assert pictures.shape[1:] == (64, 64, 3)
        assert pictures.dtype == torch.uint8
        seen += len(pictures)
        total += int(classes.sum())
        if number == WARM_UP:
            began, counted = time.perf_counter(), seen
        if seen >= order["rows"]:
            break
    seconds = time.perf_counter() - began
    batches.close()  # type: ignore[attr-defined] - all of them are generators
    del batches
    own, others = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "rate": (seen - counted) / seconds,
        "rows": seen,
        "classes": total,
        "cpu_s": own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime,
    }


def _fast(data: bytes) -> Any:
    """Plimsoll's way to decode, for a comparison of everything but decoding."""
    import numpy as np
    from PIL import Image

    values = Image.frombytes("RGB", (64, 64), data, "jpeg", "RGB", "").tobytes()
    return np.frombuffer(values, np.uint8).reshape(64, 64, 3)


if __name__ == "__main__":
    task = json.loads(sys.argv[1])
    print(json.dumps(optimize(task) if task["who"] == "optimize" else measure(task)))
