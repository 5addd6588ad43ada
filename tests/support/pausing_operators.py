"""Operators of the project that wait once at a chosen moment, so that a drill can hit exactly there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

from include.core.clock import SystemClock
from include.core.process import own_identity
from include.core.store import ObjectStore
from plimsoll.hooks.installation import connect
from plimsoll.operators.provision_gpu import ProvisionGpuOperator
from plimsoll.operators.resumable_training import ResumableTrainingOperator

_LONGEST_WAIT_S = 60.0


def pause_key(run_prefix: str) -> str:
    """Document that tells who waits; its neighbour ``go.json`` ends the wait."""
    return f"drills/{run_prefix}/waiting.json"


def wait_once(store: ObjectStore, run_prefix: str) -> None:
    """Wait until the test says go; only the first process of a run that comes here waits."""
    clock = SystemClock()
    if not store.create_json(pause_key(run_prefix), own_identity().to_json()):
        return
    deadline = clock.monotonic() + _LONGEST_WAIT_S
    while not store.exists(f"drills/{run_prefix}/go.json") and clock.monotonic() < deadline:
        clock.sleep(0.1)


def _run_prefix(context: Any) -> str:
    from include.core.ids import run_prefix

    return run_prefix(workload=context["ti"].dag_id, run_id=context["ti"].run_id)


class PausingProvisionOperator(ProvisionGpuOperator):
    """Waits between the intent and the launch, or just after the launch.

    Args:
        moment: ``intent`` or ``launch``: what has just been done when it waits.
    """

    def __init__(self, *, moment: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.moment = moment

    def execute(self, context: Any) -> dict[str, str]:
        from include.compute.engines.local import LocalEngine

        prefix, launch = _run_prefix(context), LocalEngine.launch

        def pausing(engine: LocalEngine, request: Any) -> Any:
            if self.moment == "intent":
                wait_once(connect().store, prefix)
            lease = launch(engine, request)
            if self.moment == "launch":
                wait_once(connect().store, prefix)
            return lease

        with mock.patch.object(LocalEngine, "launch", pausing):
            return super().execute(context)


class PausingTrainingOperator(ResumableTrainingOperator):
    """Waits in the middle of a recovery: the old lease is ended, the intent of the next one not yet written."""

    def _move_on(self, context: Any, *, lost_lease: str | None) -> Any:
        from include.ledger.ledger import Ledger

        intent: Callable[..., Any] = Ledger.intent

        def pausing(ledger: Ledger, **arguments: Any) -> Any:
            if lost_lease is not None:
                wait_once(connect().store, _run_prefix(context))
            return intent(ledger, **arguments)

        with mock.patch.object(Ledger, "intent", pausing):
            return super()._move_on(context, lost_lease=lost_lease)
