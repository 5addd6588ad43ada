"""Airflow's LocalExecutor without a race that fails a task which resumes soon after it has deferred.

The executor remembers a task by a key that stays the same when the task defers and resumes. If the trigger fires before
the process of the first half has been collected, the second half is handed over under the same key, and then the end of
the first is taken for the end of the second: the scheduler finds a running task whose executor says that it has ended,
and fails it. Short jobs on a busy machine meet this every few runs. Seen with Airflow 3.3.2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from airflow.executors.local_executor import LocalExecutor


class PatientLocalExecutor(LocalExecutor):
    """Counts what was handed over per key, and reports the end of a task only when its last process has ended."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - Airflow's own arguments, passed on
        super().__init__(*args, **kwargs)
        self._handed_over: Counter[Any] = Counter()

    def _process_workloads(self, workload_list: Sequence[Any]) -> None:
        self._handed_over.update(workload.key for workload in workload_list)
        super()._process_workloads(workload_list)

    def change_state(self, key: Any, state: Any, info: Any = None, remove_running: bool = True) -> None:  # noqa: ANN401, FBT001, FBT002 - Airflow's signature
        """Take note of the end of a process; `_read_results` of the base class calls this once for each."""
        if remove_running and self._handed_over[key] > 1:
            self._handed_over[key] -= 1
            self.log.info("%s ended, but its next half already runs: not reported", key)
            return
        if remove_running:
            del self._handed_over[key]
        super().change_state(key, state, info, remove_running)
