"""Commits of checkpoints: names, seals, and what a resumed training must have in common with the saved one."""

from __future__ import annotations

import json
import re
from dataclasses import replace

from pydantic import ValidationError

from include.config.workload import Workload
from include.core.contracts.checkpoint import CheckpointCommit
from include.core.errors import UserError
from include.core.ids import content_digest
from include.core.json_codec import from_json, to_json

COMMIT, LAYOUT = "COMMIT.json", "layout.json"
# Grows when the meaning of the saved tensors changes; older checkpoints are then refused by their hash.
STATE_FORMAT = 2
# End of the fingerprint where the rows were streamed from their shards, which is another order.
STREAMED = ":streamed"
_NAME = re.compile(r"^step-(\d{1,18})-(\d{1,18})$")
_DIGEST = re.compile(r"[0-9a-f]{64}")


def checkpoint_name(*, step: int, attempt: int) -> str:
    """Directory of one checkpoint of one attempt."""
    return f"step-{step}-{attempt}"


def parse_name(name: str) -> tuple[int, int] | None:
    """Step and attempt of a checkpoint's directory, None for any other name."""
    match = _NAME.match(name)
    return (int(match[1]), int(match[2])) if match else None


def config_hash(workload: Workload) -> str:
    """Hash of the sections that shape the training. When to save and what to keep do not, nor does the layout."""
    training = workload.training.model_dump(mode="json", exclude={"checkpoint_every_steps", "keep_checkpoints"})
    return content_digest(
        {"format": STATE_FORMAT, "training": training, "model": workload.model.model_dump(mode="json")}
    )


def seal(commit: CheckpointCommit) -> CheckpointCommit:
    """The commit with the digest over all its other fields."""
    return replace(commit, seal=content_digest(to_json(replace(commit, seal="")), length=64))


def read_commit(data: bytes, *, name: str) -> CheckpointCommit | str:
    """The commit of the checkpoint of that name, or the reason why it cannot be believed."""
    try:
        commit = from_json(CheckpointCommit, json.loads(data))
    except (ValueError, ValidationError, RecursionError):
        return f"{COMMIT} is not readable"
    if not _is_proper(commit):
        return f"{COMMIT} names what no checkpoint has"
    if seal(commit) != commit or (commit.step, commit.attempt) != parse_name(name):
        return f"{COMMIT} is damaged"
    return commit


def _is_proper(commit: CheckpointCommit) -> bool:
    """Whether its names can be used as such: the seal is no proof of who made it."""
    digests = [*(file.sha256 for file in commit.files), *(blob.sha256 for blob in commit.blobs)]
    sizes = [*(file.size_bytes for file in commit.files), *(blob.size_bytes for blob in commit.blobs)]
    return (
        [file.name for file in commit.files] == [LAYOUT]
        and len(commit.blobs) > 0
        and all(_DIGEST.fullmatch(digest) for digest in digests)
        and min(sizes) > 0
    )


def refuse_foreign(commit: CheckpointCommit, *, uri: str, config: str, fingerprint: str) -> None:
    """Refuse to go on from a training of another configuration or other data.

    Raises:
        UserError: The commit's hash or fingerprint differs.
    """
    for what, found, allowed in (
        ("another configuration (model, training or format)", commit.config_hash, config),
        ("other data", commit.dataset_fingerprint, fingerprint),
    ):
        if found != allowed:
            same_rows = found.removesuffix(STREAMED) == allowed.removesuffix(STREAMED)
            raise UserError(
                "the checkpoint belongs to the same rows in another order"
                if same_rows
                else f"the checkpoint belongs to {what}",
                where=uri,
                found=found,
                allowed=allowed,
                todo="set PLIMSOLL_STREAM_ABOVE_BYTES as it was when this run began"
                if same_rows
                else "start a new run, or restore the workload file that this run began with",
            )
