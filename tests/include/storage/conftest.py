"""Stores with real checkpoints: committed, damaged, uncommitted."""

import hashlib
from dataclasses import replace

import pytest

from include.core.contracts.checkpoint import CheckpointCommit, CheckpointFile
from include.core.ids import content_digest
from include.core.json_codec import to_json

RUN = "runs/digits/manual-1"


def put_checkpoint(store, run, step, *, attempt=1, committed=True, data=None):
    """A checkpoint of two files; returns its prefix."""
    prefix = f"{run}/checkpoints/step-{step}-{attempt}"
    content = {"__0_0.distcp": data or f"weights {run} {step}".encode() * 40, ".metadata": b"m" * 10}
    for name, body in content.items():
        store.put(f"{prefix}/{name}", body)
    if committed:
        files = tuple(
            CheckpointFile(name=name, size_bytes=len(body), sha256=hashlib.sha256(body).hexdigest())
            for name, body in content.items()
        )
        commit = CheckpointCommit(
            step=step, attempt=attempt, world=1, config_hash="c", dataset_fingerprint="d", files=files, seal=""
        )
        sealed = replace(commit, seal=content_digest(to_json(commit), length=64))
        store.put_json(f"{prefix}/COMMIT.json", to_json(sealed))
    return prefix


def content_of(store):
    """Key -> bytes of everything."""
    return {key: store.get(key) for key, _ in store.list()}


@pytest.fixture
def checkpoint():
    return put_checkpoint


@pytest.fixture
def content():
    return content_of


@pytest.fixture
def furnished():
    """Fill a store with one run to clean, one that lives, leases, and things no clean-up may touch."""

    def furnish(store):
        for step in (10, 20, 30):
            put_checkpoint(store, RUN, step)
        put_checkpoint(store, RUN, 40, committed=False)
        put_checkpoint(store, "runs/digits/living", 5)
        put_checkpoint(store, "runs/digits/living", 6, committed=False)
        for lease in ("train-a-g1", "train-b-g1"):
            store.put(f"leases/{lease}/spec.json", b"{}")
            store.put(f"leases/{lease}/queue/train-1", b"{}")
        for key in ("datasets/f/manifest.json", f"{RUN}/run.json", f"{RUN}/candidates/c/model.onnx", "prefixes/h/m"):
            store.put(key, b"x" * 2000)
        return RUN

    return furnish
