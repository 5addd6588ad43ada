"""Offers, demands and orders for tests of the planner: every field has a plausible default."""

from __future__ import annotations

from typing import Any

from include.config.workload import Workload
from include.core.contracts.demand import Demand, MemoryByComponent
from include.core.contracts.offer import Offer, Price, PurchaseOption
from include.core.contracts.plan import Criticality
from tests.support.jobs import workload


def demand(**fields: Any) -> Demand:
    """A training of 600 steps of 20 ms on a CPU, a few megabytes large."""
    values: dict[str, Any] = {
        "memory": MemoryByComponent(
            parameters_bytes=600_000,
            gradients_bytes=600_000,
            optimizer_bytes=1_200_000,
            activations_bytes=3_000_000,
            temporary_bytes=2_000_000,
        ),
        "micro_batch": 64,
        "parameters": 150_000,
        "flop_per_sample": 8e6,
        "bytes_moved_per_sample": 1e6,
        "ops_per_step": 280,
        "steps": 600,
        "host_ram_bytes": 4 * 10**8,
        "vcpus": 1,
        "disk_bytes": 10**7,
        "cpu_s_per_step": 0.02,
        "method": "test",
    }
    return Demand(**{**values, **fields})


def offer(*, usd: str | None = "1.0", **fields: Any) -> Offer:
    """A priced on-demand GPU type of AWS with datasheet figures."""
    values: dict[str, Any] = {
        "instance_type": "g0.test",
        "engine": "ec2",
        "purchase": PurchaseOption.ON_DEMAND,
        "region": "us-east-1",
        "zone": None,
        "accelerator": "T0",
        "accelerators": 1,
        "accelerator_memory_bytes": 16 * 10**9,
        "accelerator_tflops": {"fp32": 10.0},
        "memory_bandwidth_bytes_per_s": 3e11,
        "vcpus": 4,
        "ram_bytes": 16 * 10**9,
        "local_ssd_bytes": None,
        "network": None,
        "idle_w": None,
        "peak_w": None,
        "price": None if usd is None else Price(usd_per_h=usd, as_of="2026-11-01", source="test", method="quoted"),
        "facts_as_of": "2026-11-01",
        "facts_source": "test",
    }
    return Offer(**{**values, **fields})


def this_machine(*, usd: str | None = "0.012", **fields: Any) -> Offer:
    """This machine: two cores, 40 W."""
    values: dict[str, Any] = {
        "instance_type": "this-machine",
        "engine": "local",
        "purchase": PurchaseOption.LOCAL,
        "region": "local",
        "accelerator": None,
        "accelerators": 0,
        "accelerator_memory_bytes": None,
        "accelerator_tflops": {},
        "memory_bandwidth_bytes_per_s": None,
        "vcpus": 2,
        "ram_bytes": 8 * 10**9,
        "idle_w": 10.0,
        "peak_w": 40.0,
    }
    return offer(usd=usd, **{**values, **fields})


UNLIMITED = {"deadline_h": None, "budget_usd": None, "max_gco2e": None}


def order(*, engine: str = "local", criticality: str = "normal", **sections: Any) -> Workload:
    """The digits workload, without limits unless told otherwise; the engine may be one that no file can ask for yet."""
    sections["limits"] = {**UNLIMITED, **sections.get("limits", {})}
    made = workload("digits", **sections)
    compute = made.compute.model_copy(update={"engine": engine})
    return made.model_copy(update={"compute": compute, "criticality": Criticality(criticality)})
