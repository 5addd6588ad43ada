"""Names of the files in a job's scratch folder, by which worker, launcher and agent talk."""

from __future__ import annotations

from pathlib import Path

ORDER = "worker_order.json"
STARTED = "worker_started.json"
OUTCOME = "worker_outcome.json"
STEPS = "steps.json"
STEPS_RECORD = "steps.record"
PROGRESS = "progress.json"
NOTICE = "notice.json"
# Asks for a checkpoint soon, after which the training goes on.
CHECKPOINT_NOW = "checkpoint-now"
# In a drill alone: from which fraction on a training waits for the notice.
DRILL_HOLD = "drill-hold.json"


def folder_of(job_dir: Path, local_rank: int) -> Path:
    """Where a worker keeps its own files: the first of a machine in the job's folder, each other one below it."""
    return job_dir if local_rank == 0 else job_dir / f"worker-{local_rank}"
