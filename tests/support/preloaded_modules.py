"""What the fork server imports before it forks."""

from __future__ import annotations

import importlib

import torch

for _name in (
    "pandas",  # reading a split imports it, and pyarrow
    "pyarrow.parquet",
    "torch._dynamo",  # the first step of an optimizer
    "torch.distributed.fsdp",  # the first sharded module
    "torch.distributed.tensor.parallel",
    "include.training.session",
    "include.training.worker",
    "tests.support.sharded_state",
    "tests.support.training_attempt",
):
    importlib.import_module(_name)

# Threads do not survive a fork; one is enough for trainings of milliseconds.
torch.set_num_threads(1)
