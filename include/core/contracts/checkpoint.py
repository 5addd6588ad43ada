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
class CheckpointBlob:
    """One blob of a checkpoint, ``checkpoints/blobs/<sha256>.safetensors``: named by what it holds, shared by a run."""

    sha256: str
    size_bytes: int

    @property
    def name(self) -> str:
        """File name below ``checkpoints/blobs``."""
        return f"{self.sha256}.safetensors"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointCommit:
    """``checkpoints/step-<step>-<attempt>/COMMIT.json``, written last and only once.

    Attributes:
        step: Optimizer steps done.
        attempt: Attempt that wrote it.
        world: Number of workers that wrote it.
        config_hash: Hash of everything in the workload that shapes the training, and of the state's format.
        dataset_fingerprint: Fingerprint of the data it was trained on.
        files: All files of its own directory; the checkpoint is valid when each has its size and digest.
        blobs: All blobs it needs, under the same condition.
        metric: Validation metric of this state, larger is better; None where nobody measured it.
        writer: Token of the process that wrote it, by which that process knows its own commit again.
        seal: Digest over all other fields: a damaged commit is told from one of another workload.
    """

    step: int
    attempt: int
    world: int
    config_hash: str
    dataset_fingerprint: str
    files: tuple[CheckpointFile, ...]
    blobs: tuple[CheckpointBlob, ...] = ()
    metric: float | None = None
    writer: str = ""
    seal: str
