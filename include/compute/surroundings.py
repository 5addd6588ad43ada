"""What an agent finds on the machine where it runs: its metadata endpoint above all, emulated where there is none."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from include.compute.alive_file import VARIABLE, AliveFile
from include.compute.imds import InstanceFacts, MetadataEmulator
from include.compute.imds_client import Instance, MetadataClient, endpoint_of
from include.compute.pace import Pace
from include.config.settings import Settings
from include.core.clock import Clock, SystemClock
from include.core.contracts.lease import LaunchRequest
from include.core.store import ObjectStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What an agent finds where it runs.

    Attributes:
        store: Where the lease's documents are.
        settings: Settings of the installation.
        endpoint: Metadata endpoint.
        instance: What the instance says of itself; unknown where nobody needs it.
        emulator: The metadata protocol in this process, for a machine without an endpoint of its own.
        job_command: Program that runs a job; kind and request URI are appended.
        pace: Intervals and graces.
        clock: Source of time.
        alive: What tells the machine that all is well.
    """

    store: ObjectStore
    settings: Settings
    endpoint: str
    instance: Instance
    emulator: MetadataEmulator | None
    job_command: Sequence[str]
    pace: Pace
    clock: Clock
    alive: AliveFile


@contextmanager
def surroundings(
    spec: LaunchRequest,
    *,
    store: ObjectStore,
    settings: Settings,
    emulate_metadata: bool,
    job_command: Sequence[str],
    pace: Pace,
) -> Iterator[Surroundings]:
    """Look around on this machine; the emulator, where one is asked for, serves as long as the block lasts."""
    emulator = MetadataEmulator(_facts(spec)) if emulate_metadata else None
    endpoint = emulator.url if emulator else endpoint_of(os.environ)
    if emulator:
        emulator.start()
    # A lease that needs nothing of it does not wait for an endpoint that may not be there.
    needed = bool(spec.candidates) or spec.instances > 1
    try:
        yield Surroundings(
            store=store,
            settings=settings,
            endpoint=endpoint,
            instance=MetadataClient(endpoint).describe() if needed else Instance(),
            emulator=emulator,
            job_command=job_command,
            pace=pace,
            clock=SystemClock(),
            alive=AliveFile(os.environ.get(VARIABLE, "")),
        )
    finally:
        if emulator:
            emulator.stop()


def _facts(spec: LaunchRequest) -> InstanceFacts:
    placed = spec.candidates[0] if spec.candidates else None
    where = {"region": placed.region, "zone": placed.zone or f"{placed.region}a"} if placed else {}
    return InstanceFacts(
        instance_id=spec.lease_id,
        instance_type=spec.instance_type,
        life_cycle="spot" if spec.purchase == "spot" else "on-demand",
        **where,
    )
