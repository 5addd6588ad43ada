"""What a task knows of its run: the record and the plan in the store. Light enough to be imported at parse time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException

from include.config.run_record import RunRecord
from include.core.ids import run_prefix
from plimsoll.hooks.installation import Installation

if TYPE_CHECKING:
    from include.core.contracts.plan import Plan

CONTROL = "control"
XCOM_LIMIT_BYTES = 10_000


def small_json(value: Any, *, what: str) -> Any:
    """Guard of everything that goes into XCom.

    Raises:
        AirflowFailException: The value is larger than 10 kB; large things belong in the object store.
    """
    size = len(json.dumps(value).encode())
    if size > XCOM_LIMIT_BYTES:
        raise AirflowFailException(f"{what}: {size} bytes for XCom, at most {XCOM_LIMIT_BYTES}; put it into the store")
    return value


def word_of(value: Any) -> str:
    """A state or type of Airflow as its own word, for example ``running``.

    In a task these are enums over strings: they equal their word, but ``str`` turns them into ``DagRunState.RUNNING``.
    """
    return str(getattr(value, "value", value))


def read_run(context: Any, installation: Installation) -> RunRecord:
    """Record of the run that a task belongs to.

    Raises:
        AirflowFailException: The first task has not written it.
    """
    ti = context["ti"]
    prefix = run_prefix(workload=ti.dag_id, run_id=ti.run_id)
    raw = installation.store.get_json(f"{prefix}/run.json")
    if raw is None:
        raise AirflowFailException(f"no {prefix}/run.json: clear the run from its first task `start`")
    return RunRecord.model_validate(raw)


def read_plan(run: RunRecord, installation: Installation) -> Plan | None:
    """Plan of the run, None before it was made."""
    from include.core.contracts.plan import Plan
    from include.core.json_codec import from_json

    raw = installation.store.get_json(f"{run.run_prefix}/plan.json")
    return None if raw is None else from_json(Plan, raw)
