"""Reads what a run wrote to the store. Whatever is absent is None: a failed run has gaps, and they are shown."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import ValidationError

from include.config.job_messages import DeployResult, PrepareResult, RegisterResult, TrainResult
from include.config.schedule import Edge
from include.core.contracts.plan import Plan
from include.core.contracts.scorecard import Verdict
from include.core.json_codec import from_json
from include.core.store import ObjectStore
from include.sizing.comparison import Compared
from include.sizing.recommendation import Recommendation
from stack.last_run import TrainingAttempt

_ATTEMPT = re.compile(r"/jobs/(?P<job>[^/]+)-(?P<number>\d+)/(?P<file>[a-z]+)\.json$")
E = TypeVar("E", bound=Edge)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """Documents of one run.

    Attributes:
        plan: The plan.
        verdict: The gates' verdict with all scorecards.
        prepared: Result of prepare.
        registered: Result of register.
        deployed: Result of deploy.
        trained: Result of train.
        attempts: Attempts of the training, in order.
        totals: Totals of the ledger as the run reported them.
        compared: The training, predicted and measured.
        recommendation: For the next run.
        cleanup: Report of the clean-up.
    """

    plan: Plan | None
    verdict: Verdict | None
    prepared: PrepareResult | None
    registered: RegisterResult | None
    deployed: DeployResult | None
    trained: TrainResult | None
    attempts: tuple[TrainingAttempt, ...]
    totals: dict[str, Any] | None
    compared: tuple[Compared, ...]
    recommendation: Recommendation | None
    cleanup: dict[str, Any] | None


def gather(store: ObjectStore, prefix: str) -> RunFacts:
    """Read everything the summary needs of one run."""
    files = _job_files(store, prefix)
    report = store.get_json(f"{prefix}/report.json") or {}
    learned = store.get_json(f"{prefix}/learned.json") or {}
    return RunFacts(
        plan=_contract(store, f"{prefix}/plan.json", Plan),
        verdict=_contract(store, f"{prefix}/selection/verdict.json", Verdict),
        prepared=_result(store, files, "prepare", PrepareResult),
        registered=_result(store, files, "register", RegisterResult),
        deployed=_result(store, files, "deploy", DeployResult),
        trained=_result(store, files, "train", TrainResult),
        attempts=training_attempts(store, files),
        totals=report.get("totals"),
        compared=_parsed(tuple[Compared, ...], learned.get("compared")) or (),
        recommendation=_parsed(Recommendation, learned.get("recommendation")),
        cleanup=store.get_json(f"{prefix}/cleanup.json"),
    )


def _job_files(store: ObjectStore, prefix: str) -> dict[str, dict[int, dict[str, str]]]:
    """Keys of the documents of all attempts: job -> attempt number -> file name -> key."""
    found: dict[str, dict[int, dict[str, str]]] = {}
    for key, _ in store.list(f"{prefix}/jobs"):
        if match := _ATTEMPT.search(key):
            found.setdefault(match["job"], {}).setdefault(int(match["number"]), {})[match["file"]] = key
    return found


def _contract(store: ObjectStore, key: str, kind: type[Any]) -> Any:  # noqa: ANN401 - any contract type
    return _parsed(kind, store.get_json(key))


def _parsed(kind: Any, value: Any) -> Any:  # noqa: ANN401 - any contract type, and JSON of it
    try:
        return None if value is None else from_json(kind, value)
    except ValidationError:
        return None


def _result(store: ObjectStore, files: dict[str, dict[int, dict[str, str]]], job: str, kind: type[E]) -> E | None:
    """Result of the last attempt that has one."""
    for _, documents in sorted(files.get(job, {}).items(), reverse=True):
        value = store.get_json(documents["result"]) if "result" in documents else None
        if isinstance(value, dict):
            try:
                return kind.model_validate(value)
            except ValidationError:
                continue
    return None


def training_attempts(store: ObjectStore, files: dict[str, dict[int, dict[str, str]]]) -> tuple[TrainingAttempt, ...]:
    """All attempts of the training, from the workers' own records."""
    attempts = []
    for number, documents in sorted(files.get("train", {}).items()):
        steps = store.get_json(documents["steps"]) if "steps" in documents else None
        beat = store.get_json(documents["heartbeat"]) if "heartbeat" in documents else None
        attempts.append(
            TrainingAttempt(
                number=number,
                resumed_step=(steps or {}).get("resumed_step"),
                last_executed_step=(steps or {}).get("last_executed_step"),
                exit_code=(beat or {}).get("exit_code"),
            )
        )
    return tuple(attempts)
