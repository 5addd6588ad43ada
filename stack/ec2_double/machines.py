"""What an instance runs. The double tells machines what happens to an instance, and asks them whether it has ended."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Protocol

from stack.ec2_double.records import Instance


class Machines(Protocol):
    """The inside of instances."""

    def start(self, instance: Instance, *, at: datetime) -> None:
        """The instance runs."""
        ...

    def advise(self, instance: Instance, *, at: datetime) -> None:
        """A rebalance is recommended."""
        ...

    def notice(self, instance: Instance, *, at: datetime, until: datetime) -> None:
        """The instance will be taken away."""
        ...

    def shut_down(self, instance: Instance, *, at: datetime) -> None:
        """The operating system is told to shut down."""
        ...

    def power_off(self, instance: Instance, *, at: datetime) -> None:
        """The instance is gone, whatever still runs on it. Called at the end of every life."""
        ...

    def left_at(self, instance: Instance, *, now: datetime) -> datetime | None:
        """When the instance shut itself down, None while it has not."""
        ...

    def close(self) -> None:
        """Nothing is asked any more: end everything that was started."""
        ...


class VirtualMachines:
    """Instances without processes: what an agent would do is told by the test.

    Args:
        dead_man_s: Seconds without a sign of life after which an instance shuts itself down; None for never.
    """

    def __init__(self, *, dead_man_s: float | None = None) -> None:
        self._dead_man_s = dead_man_s
        self._alive_at: dict[str, datetime] = {}
        self._exited_at: dict[str, datetime] = {}
        self.notices: dict[str, datetime] = {}
        self.advised: dict[str, datetime] = {}

    @property
    def running(self) -> tuple[str, ...]:
        """Ids of instances whose agent would run."""
        return tuple(self._alive_at)

    def touch(self, instance_id: str, *, at: datetime) -> None:
        """The agent says that all is well."""
        if instance_id in self._alive_at:
            self._alive_at[instance_id] = at

    def exit(self, instance_id: str, *, at: datetime) -> None:
        """The agent's process ends."""
        self._exited_at.setdefault(instance_id, at)

    def start(self, instance: Instance, *, at: datetime) -> None:
        """The dead man is armed."""
        self._alive_at[instance.instance_id] = at

    def advise(self, instance: Instance, *, at: datetime) -> None:
        """Keep the recommendation for whoever asks."""
        self.advised[instance.instance_id] = at

    def notice(self, instance: Instance, *, at: datetime, until: datetime) -> None:  # noqa: ARG002 - part of the port
        """Keep the notice for whoever asks."""
        self.notices[instance.instance_id] = until

    def shut_down(self, instance: Instance, *, at: datetime) -> None:  # noqa: ARG002 - part of the port
        """The agent ends."""
        self._alive_at.pop(instance.instance_id, None)

    def power_off(self, instance: Instance, *, at: datetime) -> None:  # noqa: ARG002 - part of the port
        """The agent ends."""
        self._alive_at.pop(instance.instance_id, None)

    def left_at(self, instance: Instance, *, now: datetime) -> datetime | None:
        """When the agent ended or the dead man struck, if that is over."""
        moments = []
        if exited := self._exited_at.get(instance.instance_id):
            moments.append(exited)
        alive = self._alive_at.get(instance.instance_id)
        if self._dead_man_s is not None and alive is not None:
            moments.append(alive + timedelta(seconds=self._dead_man_s))
        first = min(moments, default=None)
        return first if first is not None and first <= now else None

    def close(self) -> None:
        """There is nothing to end."""
        self._alive_at.clear()
