"""Requests and results of jobs: the wire format between operators and job processes."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from include.config.schedule import Edge
from include.config.workload import Workload
from include.core.contracts.dataset import DatasetRef
from include.core.contracts.demand import Demand
from include.core.contracts.device_profile import DeviceProfile
from include.core.contracts.diagnosis import Diagnosis
from include.core.contracts.measured import Measured
from include.core.contracts.plan import Layout
from include.core.contracts.recipe import Candidate, Recipe
from include.core.contracts.scorecard import Scorecard, Verdict

JobKind = Literal[
    "prepare", "validate", "profile", "train", "compress", "evaluate", "select", "register", "loadtest", "deploy",
    "account",
]  # fmt: skip


class Rendezvous(Edge):
    """Where the nodes of one training meet, and how many of them there may be.

    Attributes:
        endpoint: ``host:port`` of the node that serves the rendezvous.
        id: Name of the training; nodes with the same one belong together.
        min_nodes: Nodes without which nothing begins.
        max_nodes: Nodes that may take part.
        host: Whether this node serves the rendezvous.
    """

    endpoint: str = Field(pattern=r"^[A-Za-z0-9.-]{1,253}:[0-9]{1,5}$")
    id: str = Field(pattern=r"^[A-Za-z0-9_-]{1,100}$")
    min_nodes: int = Field(ge=1, le=1000)
    max_nodes: int = Field(ge=1, le=1000)
    host: bool

    @model_validator(mode="after")
    def _ordered(self) -> Rendezvous:
        if self.max_nodes < self.min_nodes:
            raise ValueError("max_nodes is at least min_nodes")
        return self


class JobRequest(Edge):
    """``request.json`` of one attempt.

    Attributes:
        kind: Which job.
        workload: The effective workload of the run.
        run_id: Airflow's run id.
        run_prefix: Store prefix of the run.
        base: Store prefix of this attempt.
        attempt: Attempt number, from 1, unique for (group, job).
        code_version: Version of the code that asked.
        inputs: Small results of earlier tasks, by name; each kind lists what it needs.
        fallback_layouts: For ``train``: layouts to try once the first one runs out of memory.
        predicted_peak_bytes: For ``train``: device memory that the plan expects.
        interruptions_per_h: For ``train``: from which the checkpoint interval follows once the time of a save is
            measured; None keeps ``checkpoint_every_steps``.
        rendezvous: For ``train``: where the nodes of an elastic training meet.
    """

    version: Literal[1] = 1
    kind: JobKind
    workload: Workload
    run_id: str
    run_prefix: str
    base: str
    attempt: int = Field(ge=1)
    code_version: str
    dataset: DatasetRef | None = None
    demand: Demand | None = None
    layout: Layout | None = None
    fallback_layouts: tuple[Layout, ...] = ()
    predicted_peak_bytes: int | None = Field(default=None, ge=0)
    interruptions_per_h: float | None = Field(default=None, ge=0)
    rendezvous: Rendezvous | None = None
    checkpoint_every_steps: int | None = Field(default=None, ge=1)
    checkpoint_uri: str | None = None
    recipe: Recipe | None = None
    candidate: Candidate | None = None
    scorecards: tuple[Scorecard, ...] = ()
    verdict: Verdict | None = None
    model_version: str | None = None
    inputs: dict[str, Any] = Field(default_factory=dict)


class PrepareResult(Edge):
    """Result of ``prepare``.

    Attributes:
        dataset: The prepared dataset.
        found: True when it was already there.
        dropped_rows: Rows left out, by reason.
    """

    dataset: DatasetRef
    found: bool
    dropped_rows: dict[str, int] = Field(default_factory=dict)


class ValidateResult(Edge):
    """Result of ``validate``; a failed validation ends the job with exit 64 instead.

    Attributes:
        evaluated: Number of expectations.
        report_uri: Store URI of the full result.
        docs_uri: Store URI of the Data Docs index page.
    """

    evaluated: int
    report_uri: str
    docs_uri: str


class ProfileResult(Edge):
    """Result of ``profile``.

    Attributes:
        demand: What the training needs, without the table of cases.
        demand_uri: Store URI of the whole demand.
        device: What real steps took on a GPU of the machine, None where it has none.
    """

    demand: Demand
    demand_uri: str | None = None
    device: DeviceProfile | None = None


class TrainResult(Edge):
    """Result of ``train``.

    Attributes:
        checkpoint_uri: The last committed checkpoint.
        weights_uri: Weights as safetensors, in the store.
        weights_digest: SHA-256 over all weights by name: equal weights give an equal digest.
        steps: Optimizer steps of the whole training.
        resumed_step: Step this attempt started from, 0 for a fresh start.
        skipped: Checkpoints passed over on resume, with reasons.
        metrics: Final metrics: ``train_loss``, ``validation_accuracy``.
        samples_per_s: Throughput of this attempt, measured; None when it executed no step.
        checkpoint_save_s: Median seconds of one committed checkpoint, measured.
        useful_s: Seconds of this attempt spent in steps.
        diagnosis: What kept this attempt from being faster or cheaper, None where no telemetry was left.
        measured: Seconds of a step and peak of device memory, None where no telemetry was left.
    """

    checkpoint_uri: str
    weights_uri: str
    weights_digest: str
    steps: int
    resumed_step: int
    skipped: tuple[tuple[str, str], ...] = ()
    metrics: dict[str, float]
    samples_per_s: float | None
    checkpoint_save_s: float | None
    useful_s: float
    diagnosis: Diagnosis | None = None
    measured: Measured | None = None


class CompressResult(Edge):
    """Result of ``compress``: the candidate and which prefix steps were found in the cache."""

    candidate: Candidate
    cached_steps: int = 0


class EvaluateResult(Edge):
    """Result of ``evaluate``."""

    scorecard: Scorecard


class SelectResult(Edge):
    """Result of ``select``: the verdict and the pictures of the front."""

    verdict: Verdict
    picture_uri: str
    interactive_uri: str


class RegisterResult(Edge):
    """Result of ``register``.

    Attributes:
        model_name: Registered model.
        version: Its version.
        created: False when the digest was already registered.
        mlflow_run_id: MLflow run that holds the artefact.
        alias: Alias that now points to the version.
        sha256: Digest of the ONNX file.
    """

    model_name: str
    version: str
    created: bool
    mlflow_run_id: str
    alias: str
    sha256: str


class LoadPoint(Edge):
    """One probe of the load test: rate in requests per second, p99 in milliseconds from the intended send time."""

    rate_per_s: float
    p99_ms: float | None
    errors: int
    requests: int
    generator_lag_p99_ms: float
    verdict: Literal["pass", "fail", "invalid"]


class LoadTestResult(Edge):
    """Result of ``loadtest``.

    Attributes:
        slo_p99_ms: The service-level objective.
        last_good_rate_per_s: Highest rate that met it, None when none did.
        upper_side: Whether the next higher rate failed for certain.
        curve: All probes, in order.
        cpu_ms_per_request: Server CPU per request at the last good rate.
        usd_per_1000: US dollars per 1,000 inferences on the hardware measured, None where unknown.
        method: How the figure came about.
    """

    slo_p99_ms: float
    last_good_rate_per_s: float | None
    upper_side: Literal["confirmed", "inconclusive"]
    curve: tuple[LoadPoint, ...]
    cpu_ms_per_request: float | None
    usd_per_1000: float | None
    method: str


class DeployResult(Edge):
    """Result of ``deploy``.

    Attributes:
        endpoint: Name of the endpoint.
        url: Where it answers.
        version: Served version.
        previous: Version served before, None for the first.
        rolled_back: True when the smoke test failed and the previous version serves again.
        sample: One real request and its answer.
        agreement_rows: Test rows compared with the registered version loaded in a fresh process.
        agrees: Whether all answers were equal.
    """

    endpoint: str
    url: str
    version: str
    previous: str | None
    rolled_back: bool
    sample: dict[str, Any]
    agreement_rows: int
    agrees: bool


class AccountResult(Edge):
    """Result of ``account``.

    Attributes:
        mlflow_run_id: MLflow run that got the figures, None when none of them was known.
    """

    mlflow_run_id: str | None
