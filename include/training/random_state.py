"""All random generators of a worker as tensors: those of torch, and of Python and numpy, which user code draws from."""

from __future__ import annotations

import random
from collections.abc import Mapping

import numpy as np
import torch

_PREFIX = "rng."
_NONE = float("nan")


def random_state(*, rank: int, world: int) -> dict[str, torch.Tensor]:
    """The states by name; a worker's are its own, so its number and that of all workers stand in the name."""
    prefix = _prefix(rank, world)
    out = {f"{prefix}cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        out[f"{prefix}cuda"] = torch.cuda.get_rng_state()
    _, words, spare = random.getstate()
    out[f"{prefix}python"] = torch.tensor(words, dtype=torch.int64)
    out[f"{prefix}python_spare"] = torch.tensor(_NONE if spare is None else spare, dtype=torch.float64)
    _, keys, position, has_spare, number = np.random.get_state(legacy=True)
    out[f"{prefix}numpy"] = torch.from_numpy(np.asarray(keys, dtype=np.int64))
    out[f"{prefix}numpy_rest"] = torch.tensor([position, has_spare, number], dtype=torch.float64)
    return out


def restore_random_state(tensors: Mapping[str, torch.Tensor], *, rank: int, world: int, step: int) -> None:
    """Set all generators.

    With another number of workers there is no state to go on from: each worker then begins anew, from the seed that
    torch was given last, the step, and its place, so that the same resume always draws the same numbers.
    """
    prefix = _prefix(rank, world)
    if f"{prefix}cpu" not in tensors:
        _begin_anew(rank=rank, world=world, step=step)
        return
    words, spare = tensors[f"{prefix}python"].tolist(), float(tensors[f"{prefix}python_spare"])
    random.setstate((3, tuple(words), None if spare != spare else spare))  # noqa: PLR0124 - only NaN differs from itself
    keys, rest = tensors[f"{prefix}numpy"].numpy().astype(np.uint32), tensors[f"{prefix}numpy_rest"].tolist()
    np.random.set_state(("MT19937", keys, int(rest[0]), int(rest[1]), rest[2]))
    if f"{prefix}cuda" in tensors and torch.cuda.is_available():
        torch.cuda.set_rng_state(tensors[f"{prefix}cuda"])
    torch.set_rng_state(tensors[f"{prefix}cpu"])


def is_random_state(name: str) -> bool:
    """Whether a tensor of a checkpoint is the state of a generator."""
    return name.startswith(_PREFIX)


def _prefix(rank: int, world: int) -> str:
    return f"{_PREFIX}{rank}of{world}."


def _begin_anew(*, rank: int, world: int, step: int) -> None:
    seed = np.random.SeedSequence((torch.initial_seed(), step, rank, world)).generate_state(1, np.uint64)[0]
    torch.manual_seed(int(seed) & (2**63 - 1))
    random.seed(int(seed))
    np.random.seed(int(seed) & (2**32 - 1))
