"""A lease that nobody cares for any more: launched for a run that is long over, by nobody's task."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from include.catalog.local import local_offer
from include.compute.driver import Capacity, JobCall, JobDriver, Waiting
from include.compute.engines.local import LocalEngine
from include.compute.launching import build_launch_request
from include.core.ids import digest
from tests.support.live_run import LiveRun


@contextmanager
def orphan_training(finished: LiveRun, name: str, **settings: Any) -> Iterator[str]:
    """A training on a lease of its own that no task watches, releases or kills; yields the lease's id.

    Args:
        finished: The run it belongs to; its training is repeated.
        name: Distinguishes orphans.
        **settings: Settings of the lease that differ from the installation's.
    """
    stack = finished.stack
    changed = stack.engine_settings.model_copy(update=settings)
    store, group = stack.store(), f"train-{digest(finished.run_id, name)}"
    engine = LocalEngine(store, changed)
    driver = JobDriver(store=store, ledger=stack.ledger(), engine=engine, preemption_budget=0)
    launch = functools.partial(
        build_launch_request,
        settings=changed,
        group_id=group,
        dag_id=finished.dag_id,
        run_id=finished.run_id,
        offer=local_offer(changed),
        drill_at=None,
    )
    capacity = Capacity(group_id=group, dag_id=finished.dag_id, run_id=finished.run_id, launch=launch)
    prefix = f"{finished.prefix}/{name}"
    order = store.get_json(f"{finished.prefix}/jobs/train-1/request.json")
    call = JobCall(
        dag_id=finished.dag_id,
        run_id=finished.run_id,
        run_prefix=prefix,
        kind="train",
        item=name,
        request=lambda attempt, base: {**order, "attempt": attempt, "base": base, "run_prefix": prefix},
    )
    waiting = driver.advance(call, capacity)
    assert isinstance(waiting, Waiting)
    try:
        yield waiting.lease_id
    finally:
        driver.end_lease(waiting.lease_id, reason="end of the test")
