"""``var/last_run.json``: the summary of one ``make run``, for people's scripts. The schema is documented from here."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import AwareDatetime, Field

from include.config.schedule import Edge


class PlanSummary(Edge):
    """What was planned, and what else was there."""

    offer: str = Field(description="Chosen offer: type/purchase option/region.")
    rule: str = Field(description="Which rule decided the purchase option.")
    objective: str
    checkpoint_every_steps: int
    predicted_s: float | None = Field(description="Predicted wall time of the training.")
    predicted_usd: float | None
    predicted_kwh: float | None
    predicted_gco2e: float | None
    method: str = Field(description="How the prediction came about.")
    alternatives: int = Field(description="Offers that were ranked behind the chosen one.")
    rejected: int = Field(description="Offers that were rejected, each with a reason in plan.json.")
    best_alternatives: tuple[str, ...] = Field(
        description="The next best types with predicted seconds and USD, price and date, and why they were not taken."
    )
    naive: str | None = Field(
        description="The choice without sizing, with the same figures; null where no accelerator type has a price."
    )
    saving: str | None = Field(
        default=None, description="What the plan saves against it, with both prices, their dates and the method."
    )
    best_anywhere: str | None = Field(
        default=None, description="The best plan were every engine configured; null where that is the chosen one."
    )


class TrainingAttempt(Edge):
    """One attempt of the training, from the worker's own record."""

    number: int
    resumed_step: int | None
    last_executed_step: int | None
    exit_code: int | None = Field(description="Exit code of the job, negative for a signal, null where unknown.")


class TrainingVerdict(Edge):
    """What kept the training from being faster or cheaper, from its telemetry."""

    verdict: str = Field(description="For example data-bound, straggler, oversized, ok, unknown.")
    reason: str = Field(description="Why, with the numbers.")
    fix: str = Field(description="What to try first; empty for ok.")


class ComparedFigure(Edge):
    """One figure of the training, predicted and measured."""

    what: str = Field(description="memory, step, time, cost, energy or carbon.")
    unit: str
    predicted: float | None
    measured: float | None
    ratio: float | None = Field(description="Measured over predicted.")
    method: str = Field(description="How the measured figure came about.")


class NextRun(Edge):
    """What to rent for the next run."""

    action: str = Field(description="larger GPU, more CPU, fix loading, smaller GPU, MIG slice or keep.")
    reason: str
    fix: str = Field(description="What to try in code or settings; empty for nothing.")
    instance_type: str
    instances: int
    purchase: str
    micro_batch: int
    workers: int
    saving_usd: float | None = Field(description="Negative where the next run costs more.")
    saving_share: float | None = Field(description="As a share of what this training cost.")
    price_now: str | None = Field(description="Price of this run, with its date and source.")
    price_then: str | None = Field(description="Price of the recommended offer, with its date and source.")
    method: str = Field(description="How the saving came about.")
    confidence: str = Field(description="low, medium or high.")
    runs: int = Field(description="Runs of the same kind that the ledger has learned from.")
    spread: float | None = Field(description="Largest over smallest of their measured over predicted step times.")


class CandidateSummary(Edge):
    """One compressed candidate with its scorecard."""

    recipe: str
    size_bytes: int
    accuracy: float = Field(description="Share of right answers on the test split.")
    accuracy_low: float = Field(description="Lower end of the 95 % interval.")
    accuracy_high: float = Field(description="Upper end of the 95 % interval.")
    p50_ms: float | None = Field(description="Median latency at batch 1.")
    p95_ms: float | None = Field(description="95th percentile of the latency at batch 1.")
    cpu_ms: float | None = Field(description="CPU time per call at batch 1.")
    peak_rss_bytes: int
    on_front: bool
    chosen: bool


class Registered(Edge):
    """The registered model version."""

    name: str
    version: str
    created: bool = Field(description="False when this digest was registered before.")
    alias: str = Field(description="Alias that the run left it with.")


class Deployment(Edge):
    """What serves now."""

    endpoint: str
    url: str
    version: str
    rolled_back: bool
    agreement_rows: int


class RealPrediction(Edge):
    """One request that the summary itself sent to the endpoint."""

    url: str
    status: int
    answer: Any
    latency_ms: float


class Cost(Edge):
    """Money."""

    usd: float | None
    known_usd: float | None = Field(description="Sum over the charges that know their cost.")
    method: str


class EnergyUse(Edge):
    """Energy."""

    kwh: float | None
    known_kwh: float | None
    method: str


class Carbon(Edge):
    """Carbon."""

    gco2e: float | None
    known_gco2e: float | None
    method: str


class StorageReclaimed(Edge):
    """What the clean-up of the run did, or would do in a dry run."""

    dry_run: bool = Field(description="True: nothing was touched, the figures are what would be done.")
    quarantined_bytes: int = Field(description="Moved aside; free after the wait in quarantine.")
    deleted_bytes: int = Field(description="Deleted for good: free now.")


class Prepared(Edge):
    """The dataset."""

    fingerprint: str
    found: bool = Field(description="True when it was prepared before.")
    rows: int | None


class Durations(Edge):
    """Wall seconds, measured."""

    setup_s: float | None = Field(description="Set-up of the Python environment by this command.")
    stack_s: float = Field(description="From the start of the stack to health and a visible DAG.")
    run_s: float | None = Field(description="From the trigger to the end of the run.")


class LastRun(Edge):
    """Summary of one ``make run``. Null means unknown or not reached, never zero."""

    version: Literal[1] = 1
    workload: str
    run_id: str
    run_prefix: str = Field(description="Prefix of everything the run wrote, below the store.")
    state: str = Field(description="Airflow's state of the run.")
    success: bool = Field(description="What the exit status says.")
    problems: tuple[str, ...] = Field(description="Why it is not a success, one line each.")
    ended_at: AwareDatetime
    plan: PlanSummary | None
    interruptions: int | None = Field(
        description="Attempts of the training that capacity cut short and that it survived."
    )
    steps_lost: int | None = Field(description="Steps executed twice: sum of last executed minus next resumed step.")
    attempts: tuple[TrainingAttempt, ...]
    diagnosis: TrainingVerdict | None = Field(
        default=None, description="Verdict over the attempt that finished; null where it left no telemetry."
    )
    compared: tuple[ComparedFigure, ...] = Field(
        default=(), description="The training, predicted and measured; empty before the training ended."
    )
    next_run: NextRun | None = Field(default=None, description="What to rent for the next run.")
    candidates: tuple[CandidateSummary, ...]
    chosen: str | None
    accuracy: float | None = Field(description="Accuracy of the chosen candidate on the test split.")
    size_ratio: float | None = Field(description="Size of the fp32 ONNX model over that of the chosen candidate.")
    accuracy_drop: float | None = Field(
        description="Test accuracy of the fp32 ONNX model minus that of the chosen one."
    )
    registered: Registered | None
    deployment: Deployment | None
    endpoint_agrees: bool | None = Field(
        description="Whether the endpoint answers as the registered version in a fresh process; null: not deployed."
    )
    prediction: RealPrediction | None
    leases_left: int = Field(description="Leases of runs that still live, by the engine and by the process table.")
    cost: Cost
    energy: EnergyUse
    carbon: Carbon
    storage: StorageReclaimed | None
    prepared: Prepared | None
    durations: Durations
    urls: dict[str, str]
