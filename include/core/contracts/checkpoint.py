"""The commit of a checkpoint: the document that makes a directory of files a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFile:
    """One file of a checkpoint, relative to its directory."""

    name: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointCommit:
    """``checkpoints/step-<step>-<attempt>/COMMIT.json``, written last and only once.

    Attributes:
        step: Optimizer steps done.
        attempt: Attempt that wrote it.
        world: Number of workers that wrote it.
        config_hash: Hash of everything in the workload that shapes the training, and of the state's format.
        dataset_fingerprint: Fingerprint of the data it was trained on.
        files: All files; the checkpoint is valid when each has its size and digest.
        seal: Digest over all other fields: a damaged commit is told from one of another workload.
    """

    step: int
    attempt: int
    world: int
    config_hash: str
    dataset_fingerprint: str
    files: tuple[CheckpointFile, ...]
    seal: str
