"""Instance types from answers of EC2: DescribeInstanceTypeOfferings and DescribeInstanceTypes. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from include.catalog.catalog_file import Chip, InstanceType
from include.core.errors import CatalogRefreshError

# AWS names its accelerated families so: graphics and GPU, GPU with more memory, training, inference, deep learning.
_ACCELERATED = re.compile(r"(p|g|gr|inf|trn|dl)\d")
_ARCHITECTURES = ("x86_64", "arm64")
_PURCHASES = ("on-demand", "spot")
_MIB_PER_GIB = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerators:
    """The accelerators of one instance type as EC2 words them.

    Attributes:
        name: Name in the catalog; with the memory where that tells kinds apart, with the share for a part of one.
        count: How many.
        memory_mib: Memory of one.
        software: What programs need to use it.
    """

    name: str
    count: int
    memory_mib: int
    software: str


def wanted_types(offerings: Iterable[Mapping[str, Any]], *, listed: Iterable[str]) -> set[str]:
    """Types worth describing: accelerated families, and whatever the bundled list has.

    Args:
        offerings: ``InstanceTypeOfferings`` of one region.
        listed: Types of the bundled list.
    """
    known = set(listed)
    offered = {str(entry["InstanceType"]) for entry in offerings}
    return {name for name in offered if name in known or _ACCELERATED.match(name)}


def parse_types(
    records: Iterable[Mapping[str, Any]], *, regions: Mapping[str, Iterable[str]], known: Mapping[str, Chip]
) -> tuple[tuple[InstanceType, ...], dict[str, Chip]]:
    """Types and the accelerators that nobody described yet.

    Args:
        records: ``InstanceTypes`` of DescribeInstanceTypes.
        regions: Regions that offer a type, by type.
        known: Accelerators of the bundled list: their datasheets hold, whatever EC2 says of their memory.

    Returns:
        Types in order of name, and new accelerators with their memory alone.

    Raises:
        CatalogRefreshError: A record lacks a field or has one that makes no sense.
    """
    types, found = [], {}
    for record in sorted(records, key=lambda item: str(item.get("InstanceType"))):
        try:
            entry, chip = _parse_type(record, regions=regions, known=known)
        except (KeyError, IndexError, TypeError, ValueError, ValidationError) as error:
            name = record.get("InstanceType", "an instance type without name")
            raise CatalogRefreshError(f"DescribeInstanceTypes: {name} makes no sense: {_short(error)}") from error
        if entry is None:
            continue
        types.append(entry)
        if entry.chip is not None and entry.chip not in known and chip is not None:
            found[entry.chip] = chip
    return tuple(types), found


def _short(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return f"{type(error).__name__} {error}"


def _parse_type(
    record: Mapping[str, Any], *, regions: Mapping[str, Iterable[str]], known: Mapping[str, Chip]
) -> tuple[InstanceType | None, Chip | None]:
    name = str(record["InstanceType"])
    arch = [a for a in record["ProcessorInfo"]["SupportedArchitectures"] if a in _ARCHITECTURES]
    purchase = [p for p in record["SupportedUsageClasses"] if p in _PURCHASES]
    if not arch or not purchase:
        return None, None  # only to be had in blocks, or made for another operating system
    parts = accelerators_of(record, known=known)
    network = record["NetworkInfo"]
    gbit = sum(float(card.get("BaselineBandwidthInGbps") or 0) for card in network.get("NetworkCards", ()))
    entry = InstanceType.model_validate(
        {
            "type": name,
            "chip": parts.name if parts else None,
            "count": parts.count if parts else 0,
            "vcpus": record["VCpuInfo"]["DefaultVCpus"],
            "ram_mib": record["MemoryInfo"]["SizeInMiB"],
            "ssd_gb": (record.get("InstanceStorageInfo") or {}).get("TotalSizeInGB", 0),
            "network": network["NetworkPerformance"],
            "network_gbit_per_s": round(gbit, 3) or None,
            "arch": arch[0],
            "purchase": purchase,
            "regions": sorted(regions[name]),
        }
    )
    chip = Chip.model_validate({"memory_mib": parts.memory_mib, "software": parts.software}) if parts else None
    return entry, chip


def accelerators_of(record: Mapping[str, Any], *, known: Mapping[str, Chip]) -> Accelerators | None:
    """Accelerators of one record, None for a CPU type.

    EC2 has three fields for them: GPUs, Neuron devices, and inference accelerators, which repeat the Neuron devices of
    some types and are the only field of others.
    """
    if gpus := (record.get("GpuInfo") or {}).get("Gpus"):
        return _gpu(gpus[0], known=known)
    if devices := (record.get("NeuronInfo") or {}).get("NeuronDevices"):
        return _named(devices[0], software="neuron")
    if others := (record.get("InferenceAcceleratorInfo") or {}).get("Accelerators"):
        return _named(others[0], software="neuron" if others[0].get("Manufacturer") == "AWS" else "other")
    return None


def _named(device: Mapping[str, Any], *, software: str) -> Accelerators:
    name = str(device["Name"])
    return Accelerators(
        name=name,
        count=int(device["Count"]),
        memory_mib=int(device["MemoryInfo"]["SizeInMiB"]),
        software=software,
    )


def _gpu(gpu: Mapping[str, Any], *, known: Mapping[str, Chip]) -> Accelerators:
    vendor_name, memory_mib = str(gpu["Name"]), int(gpu["MemoryInfo"]["SizeInMiB"])
    part = float(gpu.get("GpuPartitionSize") or 1.0)
    with_memory = f"{vendor_name}-{memory_mib // _MIB_PER_GIB}GB"
    if part < 1:
        name, count = f"{vendor_name}-1/{round(1 / part)}", int(gpu["LogicalGpuCount"])
    else:
        # The bundled list tells A100-40GB from A100-80GB by their memory; a new kind keeps the vendor's name.
        name, count = with_memory if with_memory in known else vendor_name, int(gpu["Count"])
    return Accelerators(
        name=name,
        count=count,
        memory_mib=memory_mib,
        software="cuda" if gpu.get("Manufacturer") == "NVIDIA" else "other",
    )
