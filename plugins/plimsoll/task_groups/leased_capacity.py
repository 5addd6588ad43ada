"""Setup and teardown around any work on leased capacity."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from airflow.sdk import TaskGroup

from plimsoll.operators.provision_gpu import ProvisionGpuOperator, ReleaseGpuOperator
from plimsoll.operators.wait_for_lease import WaitForLeaseOperator


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasedCapacity:
    """The frame of a leased group: put the work between ``ready`` and ``release``."""

    provision: ProvisionGpuOperator
    ready: WaitForLeaseOperator
    release: ReleaseGpuOperator


@contextmanager
def leased_capacity(group_id: str, *, group: str, pool: str) -> Iterator[LeasedCapacity]:
    """Open a task group whose work runs on the lease of a capacity group.

    ``provision`` is the setup and ``release`` its teardown: the lease ends however the work between them ends.

    Args:
        group_id: Id of the task group.
        group: Capacity group in the ledger.
        pool: Pool that counts the capacity.
    """
    with TaskGroup(group_id=group_id):
        provision = ProvisionGpuOperator(task_id="provision", group=group, pool=pool).as_setup()
        ready = WaitForLeaseOperator(task_id="wait_ready", group=group)
        release = ReleaseGpuOperator(task_id="release", group=group, trigger_rule="all_done")
        provision >> ready
        yield LeasedCapacity(provision=provision, ready=ready, release=release)
        release.as_teardown(setups=provision)
