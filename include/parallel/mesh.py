"""The mesh of a layout, and where this worker stands in it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from include.core.contracts.plan import Layout
from include.core.errors import UserError

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

DIMENSIONS = ("replicate", "shard", "tensor")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One worker's place.

    Attributes:
        mesh: The mesh (replicate, shard, tensor); None for one worker that keeps everything on its device.
        data_rank: Which part of each batch is this worker's.
        data_parallel: Into how many parts a batch is divided.
        world: All workers.
    """

    mesh: DeviceMesh | None
    data_rank: int
    data_parallel: int
    world: int

    def of(self, *names: str) -> Any:  # noqa: ANN401 - a mesh, of a library that is imported late
        """The sub-mesh of some dimensions."""
        assert self.mesh is not None
        return self.mesh[names if len(names) > 1 else names[0]]


def take_place(layout: Layout, *, device_type: str, world: int) -> Place:
    """Build the mesh; every worker calls it, once.

    Raises:
        UserError: The layout is for another number of workers.
    """
    if layout.workers != world:
        raise UserError(
            "the layout is for another number of workers",
            where="layout.replicate x layout.shard x layout.tensor",
            found=f"{layout.replicate} x {layout.shard} x {layout.tensor} for {world} workers",
            allowed=f"a product of {world}",
        )
    if world == 1 and not layout.offload:
        return Place(mesh=None, data_rank=0, data_parallel=1, world=1)
    from torch.distributed.device_mesh import init_device_mesh

    sizes = (layout.replicate, layout.shard, layout.tensor)
    mesh = init_device_mesh(device_type, sizes, mesh_dim_names=DIMENSIONS)
    data_rank = mesh.get_local_rank("replicate") * layout.shard + mesh.get_local_rank("shard")
    return Place(mesh=mesh, data_rank=data_rank, data_parallel=layout.data_parallel, world=world)


def resized(layout: Layout, *, world: int, batch_size: int) -> Layout:
    """The layout for another number of workers: whatever the tensor dimension leaves becomes replicas or shards.

    Raises:
        UserError: The workers cannot be divided by the tensor dimension.
    """
    if layout.workers == world:
        return layout
    if world % layout.tensor:
        raise UserError(
            "the workers cannot be divided among the tensor ranks",
            where="layout.tensor",
            found=f"{layout.tensor} for {world} workers",
            allowed=f"a divisor of {world}",
        )
    data = world // layout.tensor
    sharded = layout.shard > 1
    changed = replace(layout, replicate=1 if sharded else data, shard=data if sharded else 1)
    return replace(changed, accumulation=math.ceil(math.ceil(batch_size / data) / layout.micro_batch))
