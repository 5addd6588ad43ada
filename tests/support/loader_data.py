"""Twenty thousand small pictures for the loader bench: as files, as tar archives of 1 MB, and on an S3 server."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Self

import numpy as np
from PIL import Image

from include.config.settings import REPO
from include.core.json_codec import to_json
from include.core.store import ObjectStore
from include.data.stream.tar_set import describe_tar_set

PICTURES, CLASSES, SIDE = 20_000, 10, 64
_SHARD_BYTES = 2**20
BUCKET = "loader-bench"
_SERVER = """
import sys, time
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


def jpeg(number: int) -> bytes:
    """A picture of soft colours that follows from its number."""
    colours = np.random.default_rng(number).integers(0, 255, (8, 8, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(colours).resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(out, "JPEG", quality=75)
    return out.getvalue()


def _write_tars(folder: Path, pictures: list[tuple[str, int, bytes]]) -> None:
    archive, shard = None, 0
    for name, kind, data in pictures:
        if archive is None or archive.offset > _SHARD_BYTES:
            if archive is not None:
                archive.close()
            archive = tarfile.open(folder / f"{shard:05d}.tar", "w")  # noqa: SIM115 - closed when it is full
            shard += 1
        for ending, content in ((".jpg", data), (".cls", str(kind).encode())):
            info = tarfile.TarInfo(name + ending)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    assert archive is not None
    archive.close()


def make_data(root: Path) -> None:
    """Write everything below a folder, unless it is there."""
    if (root / "manifest.json").exists():
        return
    pictures = [(f"{number:05d}", number % CLASSES, jpeg(number)) for number in range(PICTURES)]
    for name, kind, data in pictures:
        path = root / "files" / str(kind) / f"{name}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (root / "store" / "tars").mkdir(parents=True, exist_ok=True)
    _write_tars(root / "store" / "tars", pictures)
    manifest = describe_tar_set(ObjectStore(f"file://{root / 'store'}"), "tars", input_shape=(3, SIDE, SIDE))
    (root / "manifest.json").write_text(json.dumps(to_json(manifest)))


class LoopbackS3:
    """An S3 server in a process of its own, that holds a copy of a folder."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            # The server belongs to what checks the project, not to the environment of the peers.
            [str(REPO / ".venv" / "bin" / "python"), "-c", _SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        self.endpoint = f"http://127.0.0.1:{int(self._process.stdout.readline())}"
        self.environment = {
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        os.environ.update(self.environment)
        import boto3

        client = boto3.client("s3")
        client.create_bucket(Bucket=BUCKET)
        client.put_bucket_acl(Bucket=BUCKET, ACL="public-read-write")
        return self

    def upload(self, folder: Path, prefix: str) -> None:
        store = ObjectStore(f"s3://{BUCKET}")
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            store.upload(path, f"{prefix}/{path.relative_to(folder).as_posix()}")

    def __exit__(self, *_: object) -> None:
        self._process.communicate()


if __name__ == "__main__":
    began = time.monotonic()
    make_data(Path(sys.argv[1]))
    print(round(time.monotonic() - began, 1), "s")
