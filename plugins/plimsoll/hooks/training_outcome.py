"""What the training of a run took, from ledger and store, and what the ledger keeps of it for the next plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from include.config.run_record import RunRecord
from plimsoll.hooks.installation import Installation
from plimsoll.hooks.run_context import read_plan

if TYPE_CHECKING:
    from include.core.contracts.diagnosis import Diagnosis
    from include.core.contracts.measured import Measured, OutOfMemory
    from include.core.contracts.plan import Plan
    from include.ledger.ledger import Attempt
    from include.sizing.comparison import Actual, Outcome
    from include.sizing.recommendation import Recommendation

LEARNED = "learned.json"
_TRAIN = "train"
_HOUR_S = 3600.0
# Reasons of an attempt's end that the job itself is to blame for.
_OWN_FAULT = ("error", "bad_input")


def record_outcome(run: RunRecord, installation: Installation) -> dict[str, Any] | None:
    """Write the run's prediction beside what its training took, once for each way in which it ended.

    Args:
        run: The run.
        installation: Clients of this process.

    Returns:
        The event's body with a recommendation for the next run, as it is in ``learned.json`` of the run; None where the
        run made no plan or its training never began.
    """
    from include.core.json_codec import to_json
    from include.ledger.corrections import KIND
    from include.sizing.comparison import prediction_event

    plan = read_plan(run, installation)
    actual = training_outcome(run, installation)
    if plan is None or actual is None:
        return None
    event = prediction_event(plan, actual, family=run.workload.model.factory)
    # A run that is cleared and succeeds after a failure teaches twice, and each time something else.
    key = f"{KIND}:{run.dag_id}/{run.run_id}:{actual.outcome}"
    installation.ledger.record(KIND, dag_id=run.dag_id, run_id=run.run_id, key=key, body=event)
    # The event first: the recommendation rests on this run too.
    learned = {**event, "recommendation": to_json(next_run(run, installation, plan, actual))}
    installation.store.put_json(f"{run.run_prefix}/{LEARNED}", learned)
    return learned


def training_outcome(run: RunRecord, installation: Installation) -> Actual | None:
    """What the run's training took so far; None where none began."""
    from include.sizing.comparison import Actual

    attempts = [a for a in installation.ledger.attempts(dag_id=run.dag_id, run_id=run.run_id) if a.job == _TRAIN]
    if not attempts:
        return None
    charges = [
        charge
        for charge in installation.ledger.charges(dag_id=run.dag_id, run_id=run.run_id)
        if charge.lease_id.startswith(f"{_TRAIN}-")
    ]
    documents = _Documents(run, installation, attempts)
    ran_out = documents.out_of_memory()
    time_s = _sum([charge.paid_s for charge in charges])
    measured = documents.measured()
    return Actual(
        outcome=_outcome(run, attempts, finished=documents.finished(), ran_out=ran_out is not None, time_s=time_s),
        time_s=time_s,
        lost_s=_sum([charge.lost_s for charge in charges]),
        usd=_sum([charge.effective_cost_usd for charge in charges]),
        kwh=_sum([charge.kwh for charge in charges]),
        gco2e=_sum([charge.gco2e for charge in charges]),
        energy_method=_methods([charge.energy_method for charge in charges]),
        cost_method=_methods([charge.cost_method for charge in charges]),
        measured=measured,
        ran_out=_device_bytes(ran_out, read_plan(run, installation)),
        out_of_memory=ran_out is not None,
    )


def next_run(run: RunRecord, installation: Installation, plan: Plan, actual: Actual) -> Recommendation:
    """What to rent for the next run of the workload."""
    from include.ledger.corrections import read_corrections
    from include.sizing.recommendation import recommend

    attempts = [a for a in installation.ledger.attempts(dag_id=run.dag_id, run_id=run.run_id) if a.job == _TRAIN]
    return recommend(
        plan=plan,
        family=run.workload.model.factory,
        diagnosis=_Documents(run, installation, attempts).diagnosis(),
        actual=actual,
        corrections=read_corrections(installation.ledger),
    )


class _Documents:
    """What the attempts of the training left in the store."""

    def __init__(self, run: RunRecord, installation: Installation, attempts: Sequence[Attempt]) -> None:
        self._store = installation.store
        self._bases = [f"{run.run_prefix}/jobs/{_TRAIN}-{attempt.number}" for attempt in reversed(attempts)]

    def finished(self) -> bool:
        """Whether an attempt came to its end."""
        return any(self._store.exists(f"{base}/result.json") for base in self._bases)

    def measured(self) -> Measured | None:
        """Of the attempt with the most steps: one that was resumed just before its end says little."""
        found = [measured for base in self._bases if (measured := self._measured(base)) is not None]
        return max(found, key=lambda measured: measured.steps, default=None)

    def _measured(self, base: str) -> Measured | None:
        from include.core.contracts.measured import Measured

        result = self._read(f"{base}/result.json") or {}
        # A result knows the layout that ran; telemetry is there too where an attempt was told to stop.
        raw = result.get("measured") or (self._read(f"{base}/telemetry.json") or {}).get("measured")
        return self._parse(Measured, raw) or self._counted(base)

    def _counted(self, base: str) -> Measured | None:
        """Of an attempt that was killed: its account of steps, from which only their mean follows."""
        from include.core.contracts.measured import Measured

        account = self._read(f"{base}/steps.json") or {}
        steps = (account.get("last_executed_step") or 0) - (account.get("resumed_step") or 0)
        seconds = account.get("useful_s")
        if steps <= 0 or not seconds:
            return None
        return Measured(
            steps=steps,
            step_s=seconds / steps,
            device="a device that left no telemetry",
            peak_device_bytes=None,
            device_memory_bytes=None,
        )

    def diagnosis(self) -> Diagnosis | None:
        """Verdict over the newest attempt that left telemetry."""
        from include.core.contracts.diagnosis import Diagnosis

        found = (
            self._parse(Diagnosis, (self._read(f"{base}/telemetry.json") or {}).get("diagnosis"))
            for base in self._bases
        )
        return next((verdict for verdict in found if verdict is not None), None)

    def out_of_memory(self) -> OutOfMemory | None:
        """The planned layout's failure to fit, None where there was none."""
        from include.core.contracts.measured import OUT_OF_MEMORY, OutOfMemory

        found = (self._parse(OutOfMemory, self._read(f"{base}/{OUT_OF_MEMORY}")) for base in self._bases)
        return next((lesson for lesson in found if lesson is not None), None)

    def _read(self, key: str) -> dict[str, Any] | None:
        found = self._store.get_json(key)
        return found if isinstance(found, dict) else None

    @staticmethod
    def _parse(kind: Any, raw: Any) -> Any:
        from pydantic import ValidationError

        from include.core.json_codec import from_json

        try:
            return None if raw is None else from_json(kind, raw)
        except ValidationError:
            return None  # written by another version


def _outcome(
    run: RunRecord, attempts: Sequence[Attempt], *, finished: bool, ran_out: bool, time_s: float | None
) -> Outcome:
    if finished:
        return "done"
    if ran_out:
        return "out of memory"
    if attempts[-1].reason in _OWN_FAULT:
        return "failed"
    deadline_h = run.workload.limits.deadline_h
    late = deadline_h is not None and time_s is not None and time_s >= deadline_h * _HOUR_S
    return "timed out" if late else "stopped"


def _device_bytes(lesson: OutOfMemory | None, plan: Plan | None) -> int | None:
    """Memory of the device that was too small: as it told, else as the catalog has it; None for a host's memory."""
    if lesson is None:
        return None
    told = None if lesson.measured is None else lesson.measured.device_memory_bytes
    return told or (None if plan is None else plan.offer.accelerator_memory_bytes)


def _sum(values: Sequence[Any]) -> float | None:
    """Sum of known values; None when one is unknown or there is none."""
    return None if not values or None in values else float(sum(values))


def _methods(values: Sequence[str]) -> str:
    return "; ".join(dict.fromkeys(values)) or "unknown: no charge"
