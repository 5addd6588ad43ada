"""Everything that a resumed training needs to go on as if nothing had happened, as a flat dict of tensors.

Only tensors: a checkpoint then fits into safetensors files and no pickle is ever read back. Scalars of the optimizer
and the schedule are not stored; they follow from the workload and the step, and the workload's hash is in the commit.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import distributed
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)

from include.training.random_state import is_random_state, random_state, restore_random_state

_FLAT = StateDictOptions(flatten_optimizer_state_dict=True)
_MODEL, _OPTIMIZER = "model.", "optimizer."
_SCALE, _GROWTH = "scaler.scale", "scaler.growth_tracker"


@dataclass(slots=True, kw_only=True)
class TrainState:
    """The training's state.

    Attributes:
        model: The model, without a wrapper.
        optimizer: Its optimizer.
        scaler: Loss scaler of fp16, None for other precisions.
        offset: Global sample offset: samples consumed since the start; the whole data position.
        step: Optimizer steps done.
        epoch_loss: Sum over the rows of the current epoch of their loss.
    """

    model: torch.nn.Module
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler | None = None
    offset: int = 0
    step: int = 0
    epoch_loss: float = 0.0

    def to_tensors(self) -> dict[str, torch.Tensor]:
        """The state as tensors by name, those of model and optimizer the live ones.

        Only after the first step: torch fills an empty optimizer by a pretended one.

        Raises:
            ValueError: No step was done yet.
        """
        if self.step == 0:
            raise ValueError("there is no state to save before the first step")
        return self._tensors()

    def targets(self, names: Collection[str]) -> dict[str, torch.Tensor]:
        """Tensors to load a checkpoint into, which `restore` then takes over.

        Args:
            names: Names in the checkpoint. Only states of generators may be missing: those of other workers are not
                wanted, and with another number of workers none of them fits.
        """
        return {name: value for name, value in self._tensors().items() if name in names or not is_random_state(name)}

    def restore(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Take over a saved state. The generators come last: building anything before may have drawn from them."""
        flat = get_optimizer_state_dict(self.model, self.optimizer, options=_FLAT)
        saved = {name.removeprefix(_OPTIMIZER): value for name, value in tensors.items() if name.startswith(_OPTIMIZER)}
        set_optimizer_state_dict(self.model, self.optimizer, {**flat, **saved}, options=_FLAT)
        self.model.load_state_dict(
            {name.removeprefix(_MODEL): value for name, value in tensors.items() if name.startswith(_MODEL)}
        )
        if self.scaler is not None and self.scaler.is_enabled():
            scaled = {"scale": float(tensors[_SCALE]), "_growth_tracker": int(tensors[_GROWTH])}
            self.scaler.load_state_dict({**self.scaler.state_dict(), **scaled})
        self.offset = int(tensors["position.offset"])
        self.step = int(tensors["position.step"])
        self.epoch_loss = float(tensors["metrics.epoch_loss"])
        restore_random_state(tensors, **_place(), step=self.step)

    def _tensors(self) -> dict[str, torch.Tensor]:
        # As parameters, not as what they hold: a save then sees which ones need no gradient.
        model = self.model.state_dict(keep_vars=True)
        out = {f"{_MODEL}{name}": value for name, value in model.items()}
        flat = get_optimizer_state_dict(self.model, self.optimizer, options=_FLAT)
        out |= {f"{_OPTIMIZER}{name}": value for name, value in flat.items() if isinstance(value, torch.Tensor)}
        if self.scaler is not None and self.scaler.is_enabled():
            scaled = self.scaler.state_dict()
            out[_SCALE] = torch.tensor(scaled["scale"], dtype=torch.float64)
            out[_GROWTH] = torch.tensor(scaled["_growth_tracker"], dtype=torch.int64)
        out |= random_state(**_place())
        out["position.offset"] = torch.tensor(self.offset, dtype=torch.int64)
        out["position.step"] = torch.tensor(self.step, dtype=torch.int64)
        out["metrics.epoch_loss"] = torch.tensor(self.epoch_loss, dtype=torch.float64)
        return out


def _place() -> dict[str, Any]:
    if not distributed.is_initialized():
        return {"rank": 0, "world": 1}
    return {"rank": distributed.get_rank(), "world": distributed.get_world_size()}
