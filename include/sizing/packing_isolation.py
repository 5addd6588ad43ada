"""How devices are shared: what that keeps apart, what it does not, and the configuration that makes it.

Sources: README of NVIDIA/k8s-device-plugin ("Shared Access to GPUs": both kinds of sharing hold for all GPUs of a node;
an MPS client gets an equal fraction of memory and compute; time slices share memory and faults), README of
NVIDIA/mig-parted (the file of partitions), NVIDIA's guides to MIG and MPS.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from include.sizing.packing_items import Isolation, Spot


@dataclass(frozen=True, slots=True, kw_only=True)
class Apartness:
    """One way of sharing, for people.

    Attributes:
        keeps_apart: What it isolates.
        does_not: What it does not.
    """

    keeps_apart: str
    does_not: str


APARTNESS: dict[Isolation, Apartness] = {
    "mig": Apartness(
        keeps_apart="memory, memory bandwidth, cache, compute and faults: each partition is a device of its own",
        does_not="power, clocks and temperature of the card, the PCIe link, host CPU and RAM; a new cut needs an idle "
        "device",
    ),
    "mps": Apartness(
        keeps_apart="address spaces; memory and compute up to an equal fraction for each client",
        does_not="memory bandwidth and caches; a fatal fault ends the clients beside it; experimental in the "
        "device plugin",
    ),
    "time-slicing": Apartness(
        keeps_apart="address spaces; turns are taken in time",
        does_not="memory: one model can take all of it and the others run out; faults; latency grows with the "
        "number of neighbours, no share of compute is kept",
    ),
    "process": Apartness(
        keeps_apart="nothing: one server process holds all models of a device",
        does_not="memory, compute, faults, the interpreter's lock: a crash or a leak of one model ends all",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """One file to apply.

    Attributes:
        applies_to: What it is for.
        tool: Which program reads it.
        text: The file.
    """

    applies_to: str
    tool: str
    text: str


def configurations(isolation: Isolation, spots: Sequence[Spot], *, name: str) -> tuple[Configuration, ...]:
    """Files that make the placements.

    Args:
        isolation: How devices are shared.
        spots: All placements.
        name: Name of the packing, which the files use.
    """
    if not spots:
        return ()
    by_device: dict[str, list[Spot]] = {}
    for spot in spots:
        by_device.setdefault(spot.device.name, []).append(spot)
    if isolation == "mig":
        return _mig(by_device, name)
    if isolation == "process":
        text = _yaml({"version": "v1", "flags": {"migStrategy": "none"}})
        where = "all nodes; one pod with `nvidia.com/gpu: 1` per device serves all of its models"
        return (Configuration(applies_to=where, tool="NVIDIA k8s-device-plugin", text=text),)
    found: dict[int, list[str]] = {}
    for device, here in sorted(by_device.items()):
        found.setdefault(len(here), []).append(device)
    return tuple(_shared(isolation, clients, devices) for clients, devices in sorted(found.items()))


def _mig(by_device: dict[str, list[Spot]], name: str) -> tuple[Configuration, ...]:
    groups: dict[str, list[dict[str, Any]]] = {}
    for here in by_device.values():
        device = here[0].device
        # The largest first: the driver gives positions in the order of the file.
        counts = Counter(
            spot.profile for spot in sorted(here, key=lambda spot: (-spot.item.memory_mib, spot.start or 0))
        )
        cut = {"devices": [device.index], "mig-enabled": True, "mig-devices": {str(k): v for k, v in counts.items()}}
        groups.setdefault(device.group, []).append(cut)
    files = [
        Configuration(
            applies_to=f"nodes of {group}: `nvidia-mig-parted apply -c {name}`, devices by index",
            tool="NVIDIA mig-parted",
            text=_yaml({"version": "v1", "mig-configs": {name: sorted(cuts, key=lambda cut: cut["devices"])}}),
        )
        for group, cuts in sorted(groups.items())
    ]
    profiles = sorted({str(spot.profile) for here in by_device.values() for spot in here})
    resources = ", ".join(f"`nvidia.com/mig-{profile}: 1`" for profile in profiles)
    plugin = Configuration(
        applies_to=f"all of these nodes; pods ask for one of {resources}",
        tool="NVIDIA k8s-device-plugin",
        text=_yaml({"version": "v1", "flags": {"migStrategy": "mixed"}}),
    )
    return (*files, plugin)


def _shared(isolation: Isolation, clients: int, devices: Sequence[str]) -> Configuration:
    nodes = f"one node for each of {', '.join(devices)}, labelled `nvidia.com/device-plugin.config`"
    if clients == 1:
        text = _yaml({"version": "v1", "flags": {"migStrategy": "none"}})
        return Configuration(applies_to=f"{nodes}: not shared", tool="NVIDIA k8s-device-plugin", text=text)
    resource: dict[str, Any] = {"resources": [{"name": "nvidia.com/gpu", "replicas": clients}]}
    sharing = (
        {"mps": {"renameByDefault": True, **resource}}
        if isolation == "mps"
        else {"timeSlicing": {"renameByDefault": True, "failRequestsGreaterThanOne": True, **resource}}
    )
    return Configuration(
        applies_to=f"{nodes}: the plugin shares all GPUs of a node alike and hands out any of them; pods ask for "
        "`nvidia.com/gpu.shared: 1` and choose the node",
        tool="NVIDIA k8s-device-plugin",
        text=_yaml({"version": "v1", "flags": {"migStrategy": "none"}, "sharing": sharing}),
    )


def _yaml(value: dict[str, Any]) -> str:
    return str(yaml.safe_dump(value, sort_keys=False, default_flow_style=None))
