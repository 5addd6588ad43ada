"""The jobs of a finished run once more, without Airflow: the same requests, leases and slots, under a new prefix."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from include.compute.driver import Capacity, Finished, JobCall, JobDriver
from include.compute.engines.local import LocalEngine
from include.config.settings import Settings
from include.core.contracts.lease import LaunchRequest
from include.core.ids import digest, job_name, run_prefix
from include.core.json_codec import from_json
from include.core.store import ObjectStore
from include.ledger.ledger import Ledger

_LOOK_EVERY_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Jobs that the DAG lets run side by side, and how many its pool admits at once."""

    kind: str
    slots: int = 1


# The lifecycle's order of jobs, with the slots of the pools that they run in.
STAGES = (
    *(Stage(kind=kind) for kind in ("prepare", "validate", "profile", "train")),
    Stage(kind="compress", slots=2),
    *(Stage(kind=kind) for kind in ("evaluate", "select", "register", "loadtest", "deploy", "account")),
)


class Replay:
    """Repeats the jobs of one run with the driver alone.

    Leases are launched and released where the tasks of the run did it. The control lease is the installation's own,
    which is warm in both.

    Args:
        settings: Settings of the installation that ran it.
        dag_id: DAG of the finished run.
        run_id: The finished run.
        name: New name, unique.
    """

    def __init__(self, *, settings: Settings, dag_id: str, run_id: str, name: str) -> None:
        self._store, self._ledger = ObjectStore(settings.store), Ledger(settings.ledger)
        self._dag_id, self._old_run, self._run_id = dag_id, run_id, f"replay__{name}"
        engine = LocalEngine(self._store, settings)
        self._engine = engine
        self._driver = JobDriver(store=self._store, ledger=self._ledger, engine=engine, preemption_budget=0)
        self._done = [a for a in self._ledger.attempts(dag_id=dag_id, run_id=run_id) if a.reason == "done"]
        self._capacities: dict[str, Capacity] = {}

    def seconds(self) -> float:
        """Wall seconds of all jobs, leases included."""
        began = time.monotonic()
        try:
            for stage in STAGES:
                jobs = [attempt.job for attempt in self._done if attempt.job.partition(".")[0] == stage.kind]
                self._run(stage, jobs)
                if stage.kind in ("train", "evaluate"):
                    self._release("train" if stage.kind == "train" else "work")
            return time.monotonic() - began
        finally:
            for group in ("train", "work"):
                self._release(group)

    def _run(self, stage: Stage, jobs: Sequence[str]) -> None:
        waiting, running = list(jobs), []
        while waiting or running:
            while waiting and len(running) < stage.slots:
                running.append(waiting.pop(0))
            running = [job for job in running if not isinstance(self._advance(job), Finished)]
            time.sleep(_LOOK_EVERY_S if running else 0)

    def _advance(self, job: str) -> Any:
        kind, _, item = job.partition(".")
        prefix = run_prefix(workload=self._dag_id, run_id=self._run_id)
        old = next(attempt for attempt in self._done if attempt.job == job)
        old_base = f"{run_prefix(workload=self._dag_id, run_id=self._old_run)}/jobs"
        old_request = self._store.get_json(
            f"{old_base}/{job_name(kind=kind, item=item, attempt=old.number)}/request.json"
        )
        changes = {"run_id": self._run_id, "run_prefix": prefix}
        call = JobCall(
            dag_id=self._dag_id,
            run_id=self._run_id,
            run_prefix=prefix,
            kind=kind,
            item=item,
            request=lambda attempt, base: {**old_request, **changes, "attempt": attempt, "base": base},
        )
        return self._driver.advance(call, self._capacity(old.group_id, old.lease_id))

    def _capacity(self, group_id: str, lease_id: str) -> Capacity:
        group = group_id.partition("-")[0]
        if group not in self._capacities:
            spec = from_json(LaunchRequest, self._store.get_json(f"leases/{lease_id}/spec.json"))
            shared = not spec.run_id
            new_group = group_id if shared else f"{group}-{digest(self._dag_id, self._run_id, group)}"
            run_id = "" if shared else self._run_id
            self._capacities[group] = Capacity(
                group_id=new_group,
                dag_id=spec.dag_id,
                run_id=run_id,
                launch=lambda lease, _: replace(spec, lease_id=lease, group_id=new_group, run_id=run_id),
            )
        return self._capacities[group]

    def _release(self, group: str) -> None:
        capacity = self._capacities.pop(group, None)
        if capacity is None:
            return
        lease_id = self._ledger.open_lease(capacity.group_id)
        if lease_id is not None:
            self._driver.end_lease(lease_id, reason="released")
