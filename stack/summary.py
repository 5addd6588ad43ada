"""Puts together the summary of a run, and decides whether it is a success."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from include.config.workload import Workload
from include.core.contracts.plan import Plan, RankedOffer
from include.core.contracts.scorecard import Scorecard, Verdict
from include.core.store import ObjectStore
from include.sizing.recommendation import Recommendation
from include.sizing.remarks import saving_of
from stack import arithmetic
from stack.airflow_api import AirflowApi, ApiError, request
from stack.last_run import (
    CandidateSummary,
    Carbon,
    ComparedFigure,
    Cost,
    Deployment,
    Durations,
    EnergyUse,
    LastRun,
    NextRun,
    PlanSummary,
    Prepared,
    RealPrediction,
    Registered,
    StorageReclaimed,
    TrainingVerdict,
)
from stack.run_facts import RunFacts

_NOT_REACHED = "not recorded: the run did not come to its report"
_SHOWN_ALTERNATIVES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """What the command itself knows of the run.

    Attributes:
        workload: The workload.
        run_id: Airflow's run id.
        run_prefix: Store prefix of the run.
        state: Airflow's final state.
        failures: Failed tasks with their error, one line each.
        leases_left: Leases of runs that still live.
        prediction: The request that the command sent, None without a deployment.
        durations: How long things took.
        urls: Where things are.
    """

    workload: Workload
    run_id: str
    run_prefix: str
    state: str
    failures: tuple[str, ...]
    leases_left: tuple[str, ...]
    prediction: RealPrediction | None
    durations: Durations
    urls: dict[str, str]


def summarise(outcome: RunOutcome, facts: RunFacts) -> LastRun:
    """The whole summary."""
    verdict = facts.verdict
    chosen = arithmetic.card(verdict, verdict.chosen if verdict else None)
    found = problems(outcome, facts)
    totals = facts.totals or {}
    known = totals.get("known_part") or {}
    cost_method = "; ".join(totals.get("cost_methods") or ()) or _NOT_REACHED
    energy_method = "; ".join(totals.get("energy_methods") or ()) or _NOT_REACHED
    return LastRun(
        workload=outcome.workload.name,
        run_id=outcome.run_id,
        run_prefix=outcome.run_prefix,
        state=outcome.state,
        success=not found,
        problems=found,
        ended_at=datetime.now(UTC),
        plan=None if facts.plan is None else plan_summary(facts.plan),
        interruptions=arithmetic.interruptions(facts.attempts),
        steps_lost=arithmetic.steps_lost(facts.attempts),
        attempts=facts.attempts,
        diagnosis=_diagnosis(facts),
        compared=tuple(ComparedFigure(**asdict(row)) for row in facts.compared),
        next_run=_next_run(facts.recommendation),
        candidates=candidates(verdict),
        chosen=verdict.chosen if verdict else None,
        accuracy=chosen.accuracy if chosen else None,
        size_ratio=arithmetic.size_ratio(verdict),
        accuracy_drop=arithmetic.accuracy_drop(verdict),
        registered=_registered(facts),
        deployment=_deployment(facts),
        endpoint_agrees=facts.deployed.agrees if facts.deployed else None,
        prediction=outcome.prediction,
        leases_left=len(outcome.leases_left),
        cost=Cost(usd=_number(totals.get("usd")), known_usd=_number(known.get("usd")), method=cost_method),
        energy=EnergyUse(kwh=_number(totals.get("kwh")), known_kwh=_number(known.get("kwh")), method=energy_method),
        carbon=Carbon(
            gco2e=_number(totals.get("gco2e")), known_gco2e=_number(known.get("gco2e")), method=energy_method
        ),
        storage=_storage(facts.cleanup),
        prepared=_prepared(facts),
        durations=outcome.durations,
        urls=outcome.urls,
    )


def problems(outcome: RunOutcome, facts: RunFacts) -> tuple[str, ...]:
    """Why the command does not end with status 0; empty for a success."""
    found = list(outcome.failures)
    if outcome.state != "success":
        found.append(f"the run ended as {outcome.state}")
    elif facts.verdict is None or facts.registered is None:
        found.append("the run succeeded without a verdict and a registered version: it was told to stop before them")
    elif outcome.workload.serving.deploy:
        found += _deployment_problems(outcome, facts)
    if outcome.leases_left:
        found.append(f"leases are still alive: {', '.join(outcome.leases_left)}")
    return tuple(found)


def _deployment_problems(outcome: RunOutcome, facts: RunFacts) -> list[str]:
    if facts.deployed is None:
        return ["the run succeeded but nothing was deployed"]
    found = []
    if not facts.deployed.agrees:
        found.append("the endpoint does not answer as the registered version does")
    if outcome.prediction is not None and outcome.prediction.status != 200:  # noqa: PLR2004 - HTTP: OK
        found.append(f"the endpoint answered a prediction with status {outcome.prediction.status}")
    return found


def plan_summary(plan: Plan) -> PlanSummary:
    """The plan in a few lines."""
    good = [ranked for ranked in plan.alternatives if ranked.rejected is None]
    # One line per type is enough for a person; all regions and options are in plan.json.
    types = {r.offer.instance_type: r for r in reversed(plan.alternatives) if r.prediction is not None}
    next_best = [
        types[name] for name in dict.fromkeys(r.offer.instance_type for r in plan.alternatives) if name in types
    ]
    return PlanSummary(
        offer=plan.offer.name,
        rule=plan.rule,
        objective=plan.objective.value,
        checkpoint_every_steps=plan.checkpoint_every_steps,
        predicted_s=plan.prediction.time_s,
        predicted_usd=plan.prediction.usd,
        predicted_kwh=plan.prediction.kwh,
        predicted_gco2e=plan.prediction.gco2e,
        method=plan.prediction.method,
        alternatives=len(good),
        rejected=len(plan.alternatives) - len(good),
        best_alternatives=tuple(offer_line(ranked) for ranked in next_best[:_SHOWN_ALTERNATIVES]),
        naive=None if plan.naive is None else offer_line(plan.naive),
        saving=None if (saving := saving_of(plan)) is None else saving.text,
        best_anywhere=None if plan.anywhere is None else offer_line(plan.anywhere),
    )


def offer_line(ranked: RankedOffer) -> str:
    """One offer: predicted time and cost of the training, price with its date and source, and why it was not taken."""
    offer, predicted = ranked.offer, ranked.prediction
    time_s = "unknown time" if predicted is None or predicted.time_s is None else f"{predicted.time_s:.3g} s"
    usd = "unknown cost" if predicted is None or predicted.usd is None else f"{predicted.usd:.3g} USD"
    price = offer.price
    terms = "no price" if price is None else f"{price.usd_per_h} USD/h as of {price.as_of}, {price.source}"
    reason = f"; not taken: {ranked.rejected}" if ranked.rejected else ""
    return f"{offer.name}: {time_s}, {usd} predicted ({terms}){reason}"


def candidates(verdict: Verdict | None) -> tuple[CandidateSummary, ...]:
    """All candidates with their scorecards, best accuracy first."""
    if verdict is None:
        return ()
    cards = sorted(verdict.scorecards, key=lambda card: (-card.accuracy, card.size_bytes))
    return tuple(_candidate(card, verdict) for card in cards)


def _candidate(card: Scorecard, verdict: Verdict) -> CandidateSummary:
    single = next((latency for latency in card.latencies if latency.batch == 1), None)
    return CandidateSummary(
        recipe=card.recipe,
        size_bytes=card.size_bytes,
        accuracy=card.accuracy,
        accuracy_low=card.accuracy_low,
        accuracy_high=card.accuracy_high,
        p50_ms=single.p50_ms if single else None,
        p95_ms=single.p95_ms if single else None,
        cpu_ms=single.cpu_ms if single else None,
        peak_rss_bytes=card.peak_rss_bytes,
        on_front=card.recipe in verdict.front,
        chosen=card.recipe == verdict.chosen,
    )


def _diagnosis(facts: RunFacts) -> TrainingVerdict | None:
    found = None if facts.trained is None else facts.trained.diagnosis
    return None if found is None else TrainingVerdict(verdict=found.verdict.value, reason=found.reason, fix=found.fix)


def _next_run(found: Recommendation | None) -> NextRun | None:
    if found is None:
        return None
    values = asdict(found)
    confidence = values.pop("confidence")
    return NextRun(**values, confidence=confidence["level"], runs=confidence["runs"], spread=confidence["spread"])


def _registered(facts: RunFacts) -> Registered | None:
    found = facts.registered
    if found is None:
        return None
    # The register job proposes; a deployment that held makes it the champion.
    served = facts.deployed is not None and not facts.deployed.rolled_back
    alias = "champion" if served else found.alias
    return Registered(name=found.model_name, version=found.version, created=found.created, alias=alias)


def _deployment(facts: RunFacts) -> Deployment | None:
    found = facts.deployed
    if found is None:
        return None
    return Deployment(
        endpoint=found.endpoint,
        url=found.url,
        version=found.version,
        rolled_back=found.rolled_back,
        agreement_rows=found.agreement_rows,
    )


def _prepared(facts: RunFacts) -> Prepared | None:
    found = facts.prepared
    if found is None:
        return None
    return Prepared(fingerprint=found.dataset.fingerprint, found=found.found, rows=sum(found.dataset.rows.values()))


def _storage(cleanup: dict[str, Any] | None) -> StorageReclaimed | None:
    try:
        return StorageReclaimed(**{name: (cleanup or {})[name] for name in StorageReclaimed.model_fields})
    except (KeyError, ValidationError):
        return None


def _number(value: object) -> float | None:
    """Money travels as a decimal string."""
    return None if value is None else float(str(value))


def predict(facts: RunFacts, store: ObjectStore) -> RealPrediction | None:
    """Send the deployment's sample request to the endpoint once more, from this process."""
    if facts.deployed is None:
        return None
    sample = facts.deployed.sample
    if "uri" in sample:  # a request that is too large to travel between tasks
        sample = store.get_json(store.key_of(sample["uri"])) or {}
    body = sample.get("request")
    began = time.perf_counter()
    status, text = request("POST", facts.deployed.url, body=body)
    latency_ms = (time.perf_counter() - began) * 1000
    try:
        answer: Any = json.loads(text)
    except ValueError:
        answer = text[:200]
    return RealPrediction(url=facts.deployed.url, status=status, answer=answer, latency_ms=round(latency_ms, 3))


def failures(api: AirflowApi, dag_id: str, run_id: str) -> tuple[str, ...]:
    """One line per failed task: its name and the error in its log."""
    failed = [task for task in api.tasks(dag_id, run_id) if task["state"] == "failed"]
    return tuple(
        f"task {task['task_id']} failed: {error_line(api, task)}"
        for task in sorted(failed, key=lambda task: task["end_date"] or "")
    )


def error_line(api: AirflowApi, task: dict[str, Any]) -> str:
    """The last error in a task's log, in one line."""
    try:
        events = api.log(task)
    except ApiError as error:
        return f"its log cannot be read ({error})"
    for event in reversed(events):
        details = event.get("error_detail") or []
        if details:
            return " ".join(f"{details[-1].get('exc_type')}: {details[-1].get('exc_value')}".split())
        if event.get("level") in ("error", "critical"):
            return " ".join(str(event.get("event")).split())
    return "no error in its log; it may have been killed"
