"""A process that launches or stops a lease dies at its n-th effect, before or after it, for every n.

Whoever comes next finds what is there: one lease has one set of instances, and after a stop it has none.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from include.compute.engines.ec2 import Ec2Engine
from include.core.contracts.lease import LeaseState
from stack.ec2_double import Market
from tests.support.ec2_rig import LEASE, ON_DEMAND, SPOT, DoubleClients, Rig

_WRITES = ("create_json", "put_json")
_CHANGES = ("create_fleet", "run_instances", "terminate_instances", "create_launch_template", "create_tags")


class Killed(BaseException):
    """As by SIGKILL: nothing catches it."""


class Countdown:
    """Kills the process at one effect, before it happens or after.

    Args:
        at: Number of the effect, from 1.
        after: Whether it still happens.
    """

    def __init__(self, *, at: int, after: bool) -> None:
        self.left = at
        self.after = after

    def wrap(self, target: Any, names: tuple[str, ...]) -> Any:
        return _Counted(target, names, self)


class _Counted:
    def __init__(self, target: Any, names: tuple[str, ...], countdown: Countdown) -> None:
        self._target = target
        self._names = names
        self._countdown = countdown

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if name not in self._names:
            return found

        def counted(*args: Any, **kwargs: Any) -> Any:
            self._countdown.left -= 1
            if self._countdown.left == 0 and not self._countdown.after:
                raise Killed
            answer = found(*args, **kwargs)
            if self._countdown.left == 0:
                raise Killed
            return answer

        return counted


def doomed(rig: Rig, countdown: Countdown) -> Ec2Engine:
    """An engine of a process that dies."""
    clients = DoubleClients(rig.double, launching=lambda client: countdown.wrap(client, _CHANGES))
    return Ec2Engine(countdown.wrap(rig.store, _WRITES), rig.settings, clients, clock=rig.clock)


def deaths(most: int) -> Iterator[tuple[int, bool]]:
    for number in range(1, most + 1):
        yield number, False
        yield number, True


@pytest.mark.parametrize("instances", [1, 3])
@pytest.mark.parametrize("visible_after_s", [0.0, 10.0])
def test_a_launch_that_dies_anywhere_is_finished_once(tmp_path: Path, instances: int, visible_after_s: float):
    survived = 0
    for number, after in deaths(30):
        # Spot has room for too few: the first round brings nothing, the second one the lease.
        market = Market.of(capacity=[{"purchase": "spot", "instances": 0}])
        rig = Rig(folder=tmp_path / f"{number}-{after}", market=market, visible_after_s=visible_after_s)
        request = rig.request(LEASE, SPOT, ON_DEMAND, instances=instances)
        try:
            doomed(rig, Countdown(at=number, after=after)).launch(request)
        except Killed:
            rig.another_process().launch(request)
        else:
            survived += 1
        assert len(rig.double.instances()) == instances, f"killed at effect {number}, after: {after}"
        assert rig.state() is LeaseState.STARTING
        rig.boot()
        assert rig.state() is LeaseState.RUNNING
        if survived:
            break
    assert survived, "the launch has more effects than the test kills at"


@pytest.mark.parametrize("visible_after_s", [0.0, 10.0])
def test_a_launch_that_died_anywhere_can_be_stopped(tmp_path: Path, visible_after_s: float):
    for number, after in deaths(30):
        rig = Rig(folder=tmp_path / f"{number}-{after}", visible_after_s=visible_after_s)
        try:
            doomed(rig, Countdown(at=number, after=after)).launch(rig.request())
        except Killed:
            rig.another_process().stop(LEASE, reason="given up")
        else:
            return
        assert rig.living() == [], f"killed at effect {number}, after: {after}"
        assert rig.state() is LeaseState.ENDED
    raise AssertionError("the launch has more effects than the test kills at")


def test_a_stop_that_dies_anywhere_is_finished(tmp_path: Path):
    for number, after in deaths(10):
        rig = Rig(folder=tmp_path / f"{number}-{after}")
        rig.engine.launch(rig.request())
        rig.boot()
        try:
            doomed(rig, Countdown(at=number, after=after)).stop(LEASE, reason="x")
        except Killed:
            rig.another_process().stop(LEASE, reason="x")
        else:
            return
        assert rig.living() == [], f"killed at effect {number}, after: {after}"
        assert rig.state() is LeaseState.ENDED
    raise AssertionError("the stop has more effects than the test kills at")
