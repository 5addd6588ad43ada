"""The ``training`` section of a workload file."""

from __future__ import annotations

import math
import re
from typing import Any, Literal

from pydantic import Field, field_validator

from include.config.schedule import Edge

Precision = Literal["fp32", "bf16", "fp16"]
TaskKind = Literal["classification", "regression", "text-classification", "causal-lm"]
# Import paths of losses, metrics and data may only point here: a factory is code that a job runs.
ALLOWED_TASK_PACKAGES = ("include.training.tasks",)
_GLOB = re.compile(r"[A-Za-z0-9_.*?\[\]!-]{1,200}")
_FACTORY = re.compile(r"([a-z_][a-z0-9_]*\.)*[a-z_][a-z0-9_]*:[a-z_][a-z0-9_]*")


class KeepCheckpoints(Edge):
    """Which checkpoints of a run stay while it goes on. The newest valid one always does."""

    last: int = Field(default=10, ge=1, le=10_000, description="So many of the newest.")
    best: int = Field(default=1, ge=0, le=1000, description="So many with the best validation metric.")
    every_steps: int = Field(default=0, ge=0, le=10**9, description="Those at multiples of it, for good; 0: none.")


class TrainingSection(Edge):
    """How the model is trained."""

    epochs: int = Field(default=20, ge=1, le=100_000)
    batch_size: int = Field(default=64, ge=1, le=65_536)
    optimizer: Literal["adamw", "adam", "sgd"] = "adamw"
    lr: float = Field(default=0.003, gt=0, le=10)
    weight_decay: float = Field(default=0.01, ge=0, le=1)
    schedule: Literal["cosine", "constant", "linear"] = "cosine"
    steps: int | None = Field(default=None, ge=1, le=10**9, description="Optimizer steps; goes before ``epochs``.")
    warmup_steps: int = Field(default=0, ge=0, le=10**9, description="Steps over which the rate rises to ``lr``.")
    clip_grad_norm: float | None = Field(default=None, gt=0, le=1e6, description="Largest norm of all gradients.")
    precision: Precision = "fp32"
    reduce_precision: Literal["fp32", "bf16"] = Field(default="fp32", description="Of gradients between workers.")
    compile: bool = Field(default=False, description="Whether torch.compile is used.")
    freeze: tuple[str, ...] = Field(default=(), max_length=64, description="Globs of parameter names that stay fixed.")
    task: TaskKind = Field(default="classification", description="Workload files go through compression, which knows "
                           "classification alone; the train job takes all.")  # fmt: skip
    loss: str | None = Field(default=None, description="'<module>:<function>' of (outputs, targets): the summed loss.")
    metric: str | None = Field(default=None, description="'<module>:<function>' of (outputs, targets): (sum, count).")
    data: str | None = Field(
        default=None, description="'<module>:<function>' of (settings, seed, **data_arguments): the rows."
    )
    data_arguments: dict[str, Any] = Field(default_factory=dict, description="Further arguments of ``data``.")
    seed: int = Field(default=7, ge=0, le=2**63 - 1)
    checkpoint_every_steps: int | None = Field(default=None, ge=1, description="None: the plan decides.")
    keep_checkpoints: KeepCheckpoints = Field(default=KeepCheckpoints(), description="Which of them stay.")

    @field_validator("freeze")
    @classmethod
    def _globs(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        wrong = [glob for glob in value if not _GLOB.fullmatch(glob)]
        if wrong:
            raise ValueError("names of parameters with the wildcards * ? [...], such as 'encoder.*'")
        return value

    @field_validator("loss", "metric", "data")
    @classmethod
    def _allowed(cls, value: str | None) -> str | None:
        if value is None:
            return None
        package = value.partition(":")[0]
        inside = any(package == allowed or package.startswith(f"{allowed}.") for allowed in ALLOWED_TASK_PACKAGES)
        if not _FACTORY.fullmatch(value) or not inside:
            raise ValueError(
                f"import path is not allowed; allowed: '<module>:<function>' in {', '.join(ALLOWED_TASK_PACKAGES)}"
            )
        return value

    def total_steps(self, steps_per_epoch: int) -> int:
        """Optimizer steps of the whole training."""
        return self.steps if self.steps is not None else self.epochs * steps_per_epoch

    def total_epochs(self, steps_per_epoch: int) -> int:
        """Epochs that these steps begin."""
        return math.ceil(self.total_steps(steps_per_epoch) / steps_per_epoch)
