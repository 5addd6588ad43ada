"""Everything that a resumed training needs to go on as if nothing had happened, as a flat dict of tensors.

Only tensors: a checkpoint then fits into safetensors files and no pickle is ever read back. Scalars of the optimizer
and the schedule are not stored; they follow from the workload and the step, and the workload's hash is in the commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)

_FLAT = StateDictOptions(flatten_optimizer_state_dict=True)
_MODEL, _OPTIMIZER = "model.", "optimizer."
_CPU_RNG, _GPU_RNG = "rng.cpu", "rng.cuda"


@dataclass(slots=True, kw_only=True)
class TrainState:
    """The training's state.

    The random generators are torch's; neither the loop nor the factories draw from any other.

    Attributes:
        model: The model.
        optimizer: Its optimizer.
        offset: Global sample offset: samples consumed since the start; the whole data position.
        step: Optimizer steps done.
        epoch_loss: Sum over the rows of the current epoch of their loss.
    """

    model: torch.nn.Module
    optimizer: torch.optim.Optimizer
    offset: int = 0
    step: int = 0
    epoch_loss: float = 0.0

    def to_tensors(self) -> dict[str, torch.Tensor]:
        """The state as tensors by name. Only after the first step: torch fills an empty optimizer by a pretended one.

        Raises:
            ValueError: No step was done yet.
        """
        if self.step == 0:
            raise ValueError("there is no state to save before the first step")
        out = {f"{_MODEL}{name}": value for name, value in self.model.state_dict().items()}
        flat = get_optimizer_state_dict(self.model, self.optimizer, options=_FLAT)
        out |= {f"{_OPTIMIZER}{name}": value for name, value in flat.items() if isinstance(value, torch.Tensor)}
        out[_CPU_RNG] = torch.get_rng_state()
        if torch.cuda.is_available():
            out[_GPU_RNG] = torch.cuda.get_rng_state()
        out["position.offset"] = torch.tensor(self.offset, dtype=torch.int64)
        out["position.step"] = torch.tensor(self.step, dtype=torch.int64)
        out["metrics.epoch_loss"] = torch.tensor(self.epoch_loss, dtype=torch.float64)
        return out

    def restore(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Take over a saved state. The generators come last: building anything before may have drawn from them."""
        flat = get_optimizer_state_dict(self.model, self.optimizer, options=_FLAT)
        saved = {name.removeprefix(_OPTIMIZER): value for name, value in tensors.items() if name.startswith(_OPTIMIZER)}
        set_optimizer_state_dict(self.model, self.optimizer, {**flat, **saved}, options=_FLAT)
        self.model.load_state_dict(
            {name.removeprefix(_MODEL): value for name, value in tensors.items() if name.startswith(_MODEL)}
        )
        self.offset = int(tensors["position.offset"])
        self.step = int(tensors["position.step"])
        self.epoch_loss = float(tensors["metrics.epoch_loss"])
        torch.set_rng_state(tensors[_CPU_RNG])
        if _GPU_RNG in tensors and torch.cuda.is_available():
            torch.cuda.set_rng_state(tensors[_GPU_RNG])
