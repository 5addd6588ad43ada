"""Runs torch's planners of saving and loading: who writes which part, and who reads which part of what was written."""

from __future__ import annotations

import torch
from torch import distributed
from torch.distributed import checkpoint as dcp
from torch.distributed.checkpoint.metadata import MetadataIndex

from include.training.blob_reader import BlobReader
from include.training.blob_writer import BlobWriter
from include.training.checkpoint_staging import Staged


class StagedPlanner(dcp.DefaultSavePlanner):
    """Plans by the live tensors and takes the data from their copies."""

    def __init__(self, staged: Staged) -> None:
        # Replicated tensors come from the first worker: buffers such as running means differ between replicas, and the
        # next forward pass takes those of the first one.
        super().__init__(flatten_state_dict=False, flatten_sharded_tensors=False, dedup_save_to_lowest_rank=True)
        self._copies = staged.copies

    def lookup_object(self, index: MetadataIndex) -> torch.Tensor:
        """This worker's part of a tensor, copied."""
        return self._copies[index.fqn]


def save_blobs(
    described: dict[str, torch.Tensor],
    *,
    writer: BlobWriter,
    planner: StagedPlanner,
    group: distributed.ProcessGroup | None,
) -> None:
    """Plan, write, commit.

    A single worker plans for itself: what several of them need beside it takes a while per tensor, in Python, and the
    training would wait for the interpreter meanwhile.

    Args:
        described: The live tensors by name.
        writer: Writes this worker's parts.
        planner: Knows their data.
        group: The workers' process group, None for a single worker.

    Raises:
        CheckpointException: Any worker failed, where there are several. It derives from BaseException.
    """
    if group is not None:
        dcp.save(described, storage_writer=writer, planner=planner, process_group=group)
        return
    planner.set_up_planner(described, is_coordinator=True)
    (plan,), metadata = planner.create_global_plan([planner.create_local_plan()])
    writer.finish(metadata, [writer.write_data(planner.finish_plan(plan), planner).value()])


def load_blobs(into: dict[str, torch.Tensor], *, reader: BlobReader, group: distributed.ProcessGroup | None) -> None:
    """Plan and read.

    Args:
        into: Tensors by name, filled in place.
        reader: Reads parts of the checkpoint.
        group: The workers' process group, None for a single worker.

    Raises:
        CheckpointException: Any worker failed, where there are several. It derives from BaseException.
        RuntimeError: The checkpoint lacks a tensor.
        ValueError: It has another shape for one.
    """
    planner = dcp.DefaultLoadPlanner(flatten_state_dict=False, flatten_sharded_tensors=False)
    if group is not None:
        dcp.load(into, storage_reader=reader, planner=planner, process_group=group)
        return
    planner.set_up_planner(into, reader.read_metadata(), is_coordinator=True)
    (plan,) = planner.create_global_plan([planner.create_local_plan()])
    reader.read_data(planner.finish_plan(plan), planner).value()
