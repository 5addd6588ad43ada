"""Spreading a model over the workers of a mesh: replicas (DDP), shards (FSDP2), both, and tensor parallel."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from include.core.contracts.plan import Layout
from include.core.errors import UserError
from include.parallel.gradients import sum_in
from include.parallel.mesh import Place
from include.parallel.recompute import blocks_of, recompute_activations

if TYPE_CHECKING:
    import torch
    from torch import nn

_NOTHING = nullcontext()


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A model as this worker runs it.

    Attributes:
        model: The module whose parameters and names count; its tensors are DTensors where it is divided.
        forward: What is called in training: the model, or its DDP wrapper.
        place: This worker's place.
        syncing: Context of a pass, told whether it is the last; None where nothing is ever exchanged.
        divided: Whether parameters are divided among workers.
    """

    model: nn.Module
    forward: Callable[[torch.Tensor], torch.Tensor]
    place: Place
    syncing: Callable[[bool], AbstractContextManager[Any]] | None
    divided: bool

    def align_buffers(self) -> None:
        """Give all workers the first one's buffers, such as the statistics of batch norms."""
        if self.place.world == 1:
            return
        from torch import distributed

        for buffer in self.model.buffers():
            distributed.broadcast(buffer, src=0)

    def of_the_first(self, value: int) -> int:
        """The first worker's value of a number on which all have to agree."""
        if self.place.world == 1:
            return value
        import torch
        from torch import distributed

        agreed = torch.tensor(value, device=next(self.model.parameters()).device)
        distributed.broadcast(agreed, src=0)
        return int(agreed)


def spread_model(
    model: nn.Module, layout: Layout, place: Place, *, reduce_precision: str = "fp32", compiled: bool = False
) -> Spread:
    """Apply a layout to a model, in place; all workers must have built it with the same weights.

    The order is that of tensor parallel, recomputation, compilation, sharding: each of them sees the former as a part
    of the model.

    Raises:
        UserError: The model declares no plan for tensor parallel.
    """
    if layout.tensor > 1:
        _divide_tensors(model, place)
    recompute_activations(model, layout.activation_checkpointing)
    if compiled:
        model.compile()
    if layout.shard > 1 or layout.offload or (layout.tensor > 1 and layout.replicate > 1):
        return _sharded(model, layout, place, reduce_precision)
    if layout.replicate > 1:
        return _replicated(model, place, reduce_precision)
    return Spread(model=model, forward=model, place=place, syncing=None, divided=layout.tensor > 1)


def _divide_tensors(model: nn.Module, place: Place) -> None:
    plan = getattr(model, "tensor_plan", None)
    if not callable(plan):
        raise UserError(
            "the model declares no plan for tensor parallel",
            where="layout.tensor",
            found=type(model).__name__,
            allowed="a model with a method tensor_plan(), from names of modules to parallel styles",
            todo="use layout.shard instead",
        )
    from torch.distributed.tensor.parallel import parallelize_module

    parallelize_module(model, place.of("tensor"), plan())


def _replicated(model: nn.Module, place: Place, reduce_precision: str) -> Spread:
    import torch
    from torch.nn.parallel import DistributedDataParallel

    wrapped = DistributedDataParallel(model, process_group=place.of("replicate").get_group())
    wrapped.register_comm_hook(None, sum_in(torch.bfloat16 if reduce_precision == "bf16" else None))

    def syncing(last: bool) -> AbstractContextManager[Any]:  # noqa: FBT001 - one question, asked in one place
        return _NOTHING if last else wrapped.no_sync()

    return Spread(model=model, forward=wrapped, place=place, syncing=syncing, divided=False)


def _sharded(model: nn.Module, layout: Layout, place: Place, reduce_precision: str) -> Spread:
    import torch
    from torch.distributed.fsdp import CPUOffloadPolicy, FSDPModule, MixedPrecisionPolicy, OffloadPolicy, fully_shard

    low = torch.bfloat16 if layout.precision == "bf16" else None
    options: dict[str, Any] = {
        "mesh": place.of("replicate", "shard") if layout.replicate > 1 else place.of("shard"),
        "mp_policy": MixedPrecisionPolicy(
            param_dtype=low, reduce_dtype=torch.bfloat16 if reduce_precision == "bf16" else torch.float32
        ),
        "offload_policy": CPUOffloadPolicy(pin_memory=torch.cuda.is_available()) if layout.offload else OffloadPolicy(),
    }
    for block in blocks_of(model):
        fully_shard(block, **options)
    fully_shard(model, **options)
    for module in model.modules():
        if isinstance(module, FSDPModule):
            # Each share of the gradient is of the batch mean already, so the shares are summed, not averaged.
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)

    def syncing(last: bool) -> AbstractContextManager[Any]:  # noqa: FBT001 - one question, asked in one place
        model.set_requires_gradient_sync(last)
        return _NOTHING

    return Spread(model=model, forward=model, place=place, syncing=syncing, divided=True)
