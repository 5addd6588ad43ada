"""Follows a run to its end: tasks as Airflow knows them, the training as its own heartbeat tells."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from include.core.store import ObjectStore
from stack.airflow_api import AirflowApi, ApiError
from stack.errors import StackError

_ENDED = ("success", "failed")
_PAUSE_S = 1.0
# Airflow may be restarted by its supervisor in the middle of a run; longer silence means that it is gone.
_SILENCE_S = 120.0
_TRAIN_BEAT = re.compile(r"/jobs/train-(\d+)/heartbeat\.json$")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLine:
    """One task instance as it is shown.

    Attributes:
        key: Task id and map index; the name of a mapped task changes once its item is known.
        name: Task id, with the mapped item where there is one.
        state: Airflow's state, ``waiting`` where it has none yet.
        seconds: Wall seconds so far, None before the start.
        try_number: Which try.
    """

    key: tuple[str, int]
    name: str
    state: str
    seconds: float | None
    try_number: int


class Display(Protocol):
    """Where the progress goes."""

    def show(self, tasks: list[TaskLine], training: str) -> None:
        """Show the present state."""
        ...


def follow(
    *,
    api: AirflowApi,
    store: ObjectStore,
    dag_id: str,
    run_id: str,
    prefix: str,
    display: Display,
    stack_goes_on: Callable[[], bool],
    pause: Callable[[float], None] = time.sleep,
) -> str:
    """Show the run until it ends.

    Returns:
        Airflow's final state of the run.

    Raises:
        StackError: The stack was stopped, or Airflow does not answer any more.
    """
    heard = time.monotonic()
    while True:
        try:
            state = str(api.run(dag_id, run_id)["state"])
            tasks = task_lines(api.tasks(dag_id, run_id), now=datetime.now(UTC))
        except ApiError as error:
            if time.monotonic() - heard > _SILENCE_S:
                raise StackError(
                    f"Airflow does not answer any more ({error}): `make stop` ends what is left."
                ) from error
        else:
            heard = time.monotonic()
            display.show(tasks, training_line(store, prefix))
            if state in _ENDED:
                return state
        if not stack_goes_on():
            raise StackError(
                "The stack was stopped while the run was followed: a run in the middle goes on at the next `make run`."
            )
        pause(_PAUSE_S)


def task_lines(tasks: list[dict[str, Any]], *, now: datetime) -> list[TaskLine]:
    """Lines of all task instances, in the order in which they started; those that have not stand last."""
    ordered = sorted(tasks, key=lambda task: (task["start_date"] is None, task["start_date"] or "", task["map_index"]))
    return [
        TaskLine(
            key=(str(task["task_id"]), int(task["map_index"])),
            name=_name(task),
            state=str(task["state"] or "waiting"),
            seconds=_seconds(task, now),
            try_number=int(task["try_number"]),
        )
        for task in ordered
    ]


def _name(task: dict[str, Any]) -> str:
    if int(task["map_index"]) < 0:
        return str(task["task_id"])
    return f"{task['task_id']} [{task.get('rendered_map_index') or task['map_index']}]"


def _seconds(task: dict[str, Any], now: datetime) -> float | None:
    if not task["start_date"]:
        return None
    end = datetime.fromisoformat(task["end_date"]) if task["end_date"] else now
    return max(0.0, (end - datetime.fromisoformat(task["start_date"])).total_seconds())


def training_line(store: ObjectStore, prefix: str) -> str:
    """What the newest attempt of the training says of itself; empty before and after it."""
    found = [(int(match[1]), key) for key, _ in store.list(f"{prefix}/jobs") if (match := _TRAIN_BEAT.search(key))]
    if not found:
        return ""
    number, key = max(found)
    beat = store.get_json(key) or {}
    progress = beat.get("progress") or {}
    if beat.get("state") != "running" or "step" not in progress:
        return ""
    parts = [f"training, attempt {number}", _of("epoch", progress, "epochs"), _of("step", progress, "total")]
    if progress.get("loss") is not None:
        parts.append(f"loss {progress['loss']:.4f}")
    if progress.get("samples_per_s"):
        parts.append(f"{progress['samples_per_s']:,.0f} samples/s")
    return ", ".join(part for part in parts if part)


def _of(name: str, progress: dict[str, Any], total: str) -> str:
    if progress.get(name) is None:
        return ""
    return f"{name} {progress[name]}" + (f"/{progress[total]}" if progress.get(total) else "")
