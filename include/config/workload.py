"""The workload file: one user's order, from data to serving."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, Field, StringConstraints, field_validator, model_validator

from include.config.data_section import DataSection
from include.config.recipes import CompressionSection
from include.config.schedule import Edge, NoSchedule, Schedule
from include.config.training_section import TrainingSection
from include.core.contracts.plan import Criticality, Objective

# Import paths in workload files may only point here: a factory is code that a job runs.
ALLOWED_FACTORY_PACKAGES = ("include.training.models",)
MODEL_PRESETS = {
    "cnn": "include.training.models.small_cnn:build",
    "mlp": "include.training.models.mlp:build",
}
# DAGs and DAG files of the project itself.
RESERVED_NAMES = ("lease_reaper", "lifecycle", "price_refresh", "storage_lifecycle", "workload_errors")
_FACTORY = re.compile(r"([a-z_][a-z0-9_]*\.)*[a-z_][a-z0-9_]*:[a-z_][a-z0-9_]*")
PlaceName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,60}$")]
_IMPORT_ROOT = Path(__file__).resolve().parents[2]


def _module_exists(module: str) -> bool:
    """Whether a module has a file; nothing is imported, since factories import heavy libraries."""
    path = _IMPORT_ROOT.joinpath(*module.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


class ModelSection(Edge):
    """Import path of a model factory and its arguments."""

    factory: str = Field(description="'package.module:function'; called as function(input_shape, classes, **arguments)")
    arguments: dict[str, Any] = Field(default_factory=dict)

    @field_validator("factory")
    @classmethod
    def _allowed(cls, value: str) -> str:
        value = MODEL_PRESETS.get(value, value)
        package = value.split(":")[0]
        inside = any(package == allowed or package.startswith(f"{allowed}.") for allowed in ALLOWED_FACTORY_PACKAGES)
        if not _FACTORY.fullmatch(value) or not inside:
            raise ValueError(
                f"import path is not allowed; allowed: a preset ({', '.join(MODEL_PRESETS)}) or "
                f"'<module>:<function>' in {', '.join(ALLOWED_FACTORY_PACKAGES)}"
            )
        return value


class LimitsSection(Edge):
    """What a run may take. A run that would exceed a limit is refused before it spends."""

    deadline_h: float | None = Field(default=None, gt=0, description="Hours from the start of the run.")
    budget_usd: float | None = Field(default=None, gt=0, description="US dollars for the whole run.")
    max_gco2e: float | None = Field(default=None, gt=0, description="Grams of CO2 equivalent for the whole run.")
    deadline: AwareDatetime | None = Field(
        default=None, description="Moment by which the training must be done, for example 2027-01-31T18:00:00+01:00."
    )


class Weights(Edge):
    """What US dollars, hours and kilograms of CO2 equivalent are worth beside one another."""

    cost: float = Field(default=0.0, ge=0, le=1e6, description="Per US dollar.")
    time: float = Field(default=0.0, ge=0, le=1e6, description="Per hour.")
    carbon: float = Field(default=0.0, ge=0, le=1e6, description="Per kilogram of CO2 equivalent.")

    @model_validator(mode="after")
    def _something_counts(self) -> Weights:
        if self.cost + self.time + self.carbon <= 0:
            raise ValueError("at least one weight above 0")
        return self


class ComputeSection(Edge):
    """Where the training may run, and what the plan minimises."""

    engine: Literal["local", "ec2"] | None = Field(
        default=None, description="Engine that runs the training; unset: the installation's, PLIMSOLL_ENGINE."
    )
    purchase: Literal["auto", "spot", "on-demand"] = "auto"
    recovery: Literal["auto", "greedy", "uniform-progress", "deadline-aware", "on-demand"] = Field(
        default="auto",
        description="What is rented after spot capacity went away; `auto` goes by criticality and deadline.",
    )
    objective: Objective = Objective.COST
    weights: Weights | None = Field(default=None, description="For ``objective: weighted``.")
    regions: tuple[PlaceName, ...] = Field(
        default=(), max_length=64, description="Regions that a training may run in, this machine aside; empty: any."
    )
    families: tuple[PlaceName, ...] = Field(
        default=(), max_length=64, description="Instance families that may be rented, such as g6 or p4de; empty: any."
    )

    @model_validator(mode="after")
    def _weights_for_weighted(self) -> ComputeSection:
        if self.objective is Objective.WEIGHTED and self.weights is None:
            raise ValueError("'objective: weighted' with 'weights', such as {cost: 1, time: 0.5}")
        return self

    @model_validator(mode="after")
    def _recovery_can_be_purchased(self) -> ComputeSection:
        if self.recovery == "on-demand" and self.purchase == "spot":
            raise ValueError("'recovery: on-demand' with 'purchase: on-demand' or 'auto', not 'spot'")
        return self


class GatesSection(Edge):
    """What a candidate must fulfil to be chosen."""

    min_accuracy: float = Field(default=0.0, ge=0, le=1, description="On the validation split.")
    max_accuracy_drop: float = Field(default=0.01, ge=0, le=1, description="Against the fp32 baseline, validation.")
    max_p95_ms: float | None = Field(default=None, gt=0, description="p95 latency at batch 1.")
    max_size_bytes: int | None = Field(default=None, gt=0)


class RegistrySection(Edge):
    """Where the chosen model is registered."""

    model_name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,100}$")


class ServingSection(Edge):
    """How the model is served."""

    endpoint: str | None = Field(default=None, pattern=r"^[a-z0-9][a-z0-9-]{0,40}$", description="Default: the name.")
    slo_p99_ms: float = Field(default=100.0, gt=0)
    deploy: bool = True


class Workload(Edge):
    """A whole workload file."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,60}$", description="Name of the DAG.")
    description: str = ""
    owner: str = "ml-platform"
    tags: tuple[str, ...] = ()
    data: DataSection
    model: ModelSection
    training: TrainingSection = TrainingSection()
    limits: LimitsSection = LimitsSection()
    criticality: Criticality = Criticality.NORMAL
    compute: ComputeSection = ComputeSection()
    compression: CompressionSection = CompressionSection()
    gates: GatesSection = GatesSection()
    registry: RegistrySection
    serving: ServingSection = ServingSection()
    schedule: Schedule = NoSchedule()

    @model_validator(mode="before")
    @classmethod
    def _default_registry(cls, value: Any) -> Any:  # noqa: ANN401 - raw YAML
        if isinstance(value, dict) and "registry" not in value and "name" in value:
            return {**value, "registry": {"model_name": value["name"]}}
        return value

    @field_validator("name")
    @classmethod
    def _not_reserved(cls, value: str) -> str:
        if value in RESERVED_NAMES:
            raise ValueError(f"a name other than those of the project's own DAGs: {', '.join(RESERVED_NAMES)}")
        return value

    @field_validator("model")
    @classmethod
    def _factory_is_there(cls, value: ModelSection) -> ModelSection:
        module = value.factory.partition(":")[0]
        if not _module_exists(module):
            raise ValueError(f"a factory in a module that exists; there is no {module}")
        return value

    @property
    def endpoint(self) -> str:
        """Name of the endpoint that serves this workload."""
        return self.serving.endpoint or self.name
