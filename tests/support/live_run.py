"""One run on the real stack as a test sees and treats it: states, leases, steps, marks, clears."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import psutil

from include.core.ids import group_id, run_prefix
from include.core.process import ProcessIdentity
from include.ledger.ledger import Attempt
from stack.airflow_api import quoted
from stack.last_run import TrainingAttempt
from stack.leases_left import leases_left
from stack.run_facts import gather
from tests.support.pausing_operators import pause_key
from tests.support.real_stack import RealStack
from tests.support.waiting import eventually

TRAIN = "training.train"
ENDED = ("success", "failed")
_RUN_S = 300.0
_NOTHING_LEFT_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRun:
    """A run that was triggered.

    Attributes:
        stack: Where it runs.
        dag_id: Its DAG.
        run_id: Its id.
    """

    stack: RealStack
    dag_id: str
    run_id: str

    @classmethod
    def begin(cls, stack: RealStack, dag_id: str, **conf: Any) -> LiveRun:
        api = stack.ready(dag_id)
        return cls(stack=stack, dag_id=dag_id, run_id=api.trigger(dag_id, conf))

    @property
    def prefix(self) -> str:
        return run_prefix(workload=self.dag_id, run_id=self.run_id)

    @property
    def path(self) -> str:
        return f"/api/v2/dags/{self.dag_id}/dagRuns/{quoted(self.run_id)}"

    def state(self) -> str:
        return str(self.stack.api().run(self.dag_id, self.run_id)["state"])

    def tasks(self) -> dict[str, dict[str, Any]]:
        return {task["task_id"]: task for task in self.stack.api().tasks(self.dag_id, self.run_id)}

    def task_states(self) -> dict[str, str]:
        return {name: str(task["state"]) for name, task in self.tasks().items()}

    def wait_end(self, within_s: float = _RUN_S) -> str:
        """State at the end of the run."""
        api = self.stack.api()
        return eventually(
            lambda: state if (state := str(api.run(self.dag_id, self.run_id)["state"])) in ENDED else None,
            within_s=within_s,
            what=f"{self.dag_id} {self.run_id} ends",
            every_s=0.5,
        )

    def wait_task(self, task_id: str, *states: str, within_s: float = _RUN_S) -> None:
        eventually(
            lambda: str(self.tasks()[task_id]["state"]) in states,
            within_s=within_s,
            what=f"{task_id} is {' or '.join(states)}",
            every_s=0.2,
        )

    def group(self, name: str = "train") -> str:
        return group_id(dag_id=self.dag_id, run_id=self.run_id, group=name)

    def leases(self, name: str = "train") -> tuple[str, ...]:
        return self.stack.ledger().leases(self.group(name))

    def attempts(self, job: str = "train") -> list[Attempt]:
        ledger = self.stack.ledger()
        return [a for a in ledger.attempts(dag_id=self.dag_id, run_id=self.run_id) if a.job == job]

    def training(self) -> tuple[TrainingAttempt, ...]:
        """Attempts of the training by the workers' own accounts."""
        return gather(self.stack.store(), self.prefix).attempts

    def digest(self) -> str:
        """Digest of the final weights."""
        store = self.stack.store()
        last = self.attempts()[-1].number
        return str((store.get_json(f"{self.prefix}/jobs/train-{last}/result.json") or {})["weights_digest"])

    def wait_training(self, *, step: int, attempt: int = 1, within_s: float = _RUN_S) -> None:
        """Wait until an attempt has come to a step and its task has handed over to the triggerer."""
        key = f"{self.prefix}/jobs/train-{attempt}/heartbeat.json"
        store = self.stack.store()

        def far_enough() -> bool:
            beat = store.get_json(key) or {}
            assert beat.get("state") != "exited", f"attempt {attempt} has ended before step {step}"
            return int((beat.get("progress") or {}).get("step", 0)) >= step

        eventually(far_enough, within_s=within_s, what=f"step {step} of attempt {attempt}")
        self.wait_task(TRAIN, "deferred", within_s=30)

    def wait_pause(self, within_s: float = _RUN_S) -> ProcessIdentity:
        """The process that waits in a pausing operator."""
        store = self.stack.store()
        found = eventually(lambda: store.get_json(pause_key(self.prefix)), within_s=within_s, what="a task waits")
        return ProcessIdentity.from_json(found)

    def go_on(self) -> None:
        """End the wait of a pausing operator."""
        self.stack.store().put_json(f"drills/{self.prefix}/go.json", {})

    def agent(self, lease_id: str | None = None) -> ProcessIdentity:
        """The agent of a lease, the newest train lease by default."""
        lease = lease_id or self.leases()[-1]
        owner = eventually(lambda: self.stack.store().get_json(f"leases/{lease}/owner.json"), what="the agent is up")
        return ProcessIdentity.from_json(owner)

    def processes(self, words: str) -> list[psutil.Process]:
        """Processes of the installation's run leases whose command line holds the words."""
        return [process for process in self.stack.job_processes() if words in " ".join(process.cmdline())]

    def mark_failed(self) -> None:
        self.stack.api().call("PATCH", self.path, {"state": "failed"})

    def mark_task_failed(self, task_id: str) -> None:
        self.stack.api().call("PATCH", f"{self.path}/taskInstances/{quoted(task_id)}", {"new_state": "failed"})

    def clear(self, task_id: str) -> set[str]:
        """Clear one task as the UI does; returns what was cleared with it."""
        body = {
            "dry_run": False,
            "dag_run_id": self.run_id,
            "task_ids": [task_id],
            "only_failed": False,
            "only_running": False,
            "reset_dag_runs": True,
            "include_downstream": False,
        }
        answer = self.stack.api().call("POST", f"/api/v2/dags/{self.dag_id}/clearTaskInstances", body)
        return {str(task["task_id"]) for task in answer["task_instances"]}

    def assert_nothing_left(self, *names: str) -> None:
        """No lease by engine or process table, no process of a job, every lease settled with its charge."""
        store = self.stack.store()
        eventually(
            lambda: not self.stack.job_processes() and not leases_left(store, self.stack.engine_settings),
            within_s=_NOTHING_LEFT_S,
            what="nothing is left running",
            every_s=0.5,
        )
        self.assert_settled(*(names or ("train",)))

    def assert_settled(self, *names: str) -> None:
        """Every lease has an end and, once launched, exactly one charge; no attempt is open."""
        ledger = self.stack.ledger()
        charged = [charge.lease_id for charge in ledger.charges(dag_id=self.dag_id, run_id=self.run_id)]
        for lease_id in (lease for name in names for lease in self.leases(name)):
            record = ledger.lease_record(lease_id)
            assert record is not None
            assert record.ended_at is not None, f"{lease_id} has no end in the ledger"
            assert charged.count(lease_id) == (record.launched_at is not None), f"charges of {lease_id}"
        attempts = ledger.attempts(dag_id=self.dag_id, run_id=self.run_id)
        assert [a.job for a in attempts if a.ended_at is None] == []

    def assert_trained_once(self, reference: str) -> None:
        """The weights are those of an undisturbed training, and no committed step was executed again."""
        assert self.digest() == reference
        store = self.stack.store()
        keys = [f"{self.prefix}/jobs/train-{attempt.number}/steps.json" for attempt in self.training()]
        accounts = [account for key in keys if (account := store.get_json(key))]
        assert accounts[0]["resumed_step"] == 0
        for before, after in pairwise(accounts):
            # A killed job leaves a lower bound of what it did.
            as_committed = after["resumed_step"] == before["committed_step"]
            assert as_committed or (not before["exact"] and after["resumed_step"] > before["committed_step"]), accounts
            assert after["resumed_step"] >= before["resumed_step"], accounts
