"""Settings of the installation: the only reader of environment variables (``PLIMSOLL_*``)."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from pydantic import Field, ValidationError, ValidationInfo, field_validator

from include.config.capacity_settings import CAPACITY_LISTS, CapacitySettings
from include.config.settings_mistakes import mistakes_of, variable_of
from include.core.errors import UserError
from include.core.regions import CLOUD_REGIONS, WORLD
from include.core.store_url import has_credentials, is_database_url

REPO = Path(__file__).resolve().parents[2]
_BUCKETS = ("s3", "gs", "az")
_LISTS = ("data_roots", "catalog_regions", *CAPACITY_LISTS)


class Settings(CapacitySettings):
    """Where things are and what this machine costs. Every field is set by ``PLIMSOLL_<NAME>``."""

    store: str = Field(default=f"file://{REPO}/var/store", description="Root URL of the object store.")
    ledger: str = Field(default=f"sqlite:///{REPO}/var/ledger.db", description="SQLAlchemy URL of the ledger.")
    work_root: Path = Field(default=REPO / "var" / "work", description="Scratch folder of agents on this machine.")
    workloads: Path = Field(default=REPO / "include" / "workloads", description="Folder of workload files.")
    data_roots: tuple[Path, ...] = Field(
        default=(REPO / "data",), description="Folders that local data files may lie in, separated by ':'."
    )
    mlflow_uri: str = Field(default="http://127.0.0.1:5000", description="MLflow tracking and registry server.")
    serving_url: str = Field(default="http://127.0.0.1:8600", description="Model server.")
    airflow_url: str = Field(default="http://127.0.0.1:8080", description="Airflow, for links.")
    region: str = Field(default="world", description="Grid region of this machine, a name in the intensity table.")
    usd_per_kwh: str = Field(
        default="0.30", pattern=r"^\d{1,6}(\.\d{1,9})?$", description="Tariff of this machine, US dollars per kWh."
    )
    tariff_as_of: str = Field(default="2026-11-30", description="ISO date of the tariff.")
    idle_w: float = Field(
        default=10.0, ge=0, description="Power of this machine at idle, watts (stated, not measured)."
    )
    peak_w: float = Field(default=40.0, gt=0, description="Power of this machine under full load, watts (stated).")
    lost_after_s: float = Field(default=30.0, gt=0, description="Silence of an agent after which it counts as lost.")
    preemption_budget: int = Field(default=8, ge=0, description="Preemptions of one job before its run fails.")
    lease_expires_s: float = Field(default=3600.0, gt=0, description="Life of a lease on this machine, at the longest.")
    lease_idle_s: float = Field(default=180.0, gt=0, description="Idle seconds after which an agent leaves by itself.")
    quota_leases: int = Field(default=8, ge=1, description="Leases that may be open at once in this installation.")
    price_stale_after_days: int = Field(
        default=90, ge=1, le=3650, description="Age in days from which a listed or own price is flagged as stale."
    )
    spot_price_stale_after_days: int = Field(
        default=7, ge=1, le=3650, description="Age in days from which a spot price is flagged as stale."
    )
    catalog_file: str = Field(
        default="",
        description="YAML file of own machines, reservations and savings plans, absolute or from the project's folder; "
        "empty has none.",
    )
    catalog_regions: tuple[str, ...] = Field(
        default=("us-east-1", "us-east-2", "us-west-2", "eu-central-1", "eu-north-1"),
        min_length=1,
        description="Cloud regions whose types and prices the price_refresh DAG asks for, separated by ':'.",
    )
    energy_meter: str = Field(default="auto", pattern="^(auto|codecarbon|estimate)$")
    stream_above_bytes: int = Field(
        default=2 * 2**30,
        ge=0,
        le=2**50,
        description="Encoded bytes of a split up to which it is read into memory; larger ones are streamed.",
    )
    shard_cache_bytes: int = Field(
        default=20 * 2**30,
        ge=2**20,
        le=2**50,
        description="Disk that fetched shards may take below the scratch folder.",
    )
    loader_workers: int = Field(
        default=1, ge=0, le=64, description="Processes of one training worker that read streamed data; 0 needs none."
    )
    skip_bad_shards: bool = Field(
        default=False, description="Let rows of the same block stand in for shards that cannot be read, and count them."
    )
    dcgm_url: str = Field(
        default="http://127.0.0.1:9400/metrics",
        pattern=r"^https?://\S+$",
        description="Where a DCGM exporter answers on machines with a GPU; one that does not answer is done without.",
    )
    profile_timeout_s: float = Field(
        default=300.0, gt=0, le=86_400, description="Seconds that building and tracing a model may take, then it ends."
    )
    profile_memory_bytes: int = Field(
        default=8 * 2**30,
        ge=2**29,
        le=2**44,
        description="Resident memory that building and tracing a model may take before it is ended.",
    )
    torch_threads: int = Field(default=1, ge=1, description="Threads of one worker; 1 makes results exact.")

    @field_validator("store")
    @classmethod
    def _is_a_root(cls, value: str) -> str:
        scheme, _, rest = value.partition("://")
        if scheme == "file":
            usable = rest.startswith("/") and not Path(rest).is_file()
        else:
            usable = scheme in _BUCKETS and bool(rest.partition("/")[0])
        if not usable:
            raise ValueError(
                "a URL that begins with one of file://, s3://, gs://, az://, then an absolute folder or a bucket"
            )
        if has_credentials(value):
            raise ValueError("a URL without credentials: they come from the environment, or from the machine's role")
        return value

    @field_validator("ledger")
    @classmethod
    def _is_a_database(cls, value: str) -> str:
        if not is_database_url(value):
            raise ValueError("an SQLAlchemy URL such as sqlite:////absolute/file.db or postgresql://host:5432/name")
        return value

    @field_validator("work_root")
    @classmethod
    def _is_absolute(cls, value: Path) -> Path:
        if not value.is_absolute():
            raise ValueError("the absolute path of a folder")
        return value

    @field_validator("tariff_as_of")
    @classmethod
    def _is_a_date(cls, value: str) -> str:
        try:
            day = date.fromisoformat(value)
        except ValueError as error:
            raise ValueError("an ISO date such as 2026-11-30") from error
        # A day of grace: it is tomorrow already in a part of the world.
        if day > datetime.now(UTC).date() + timedelta(days=1):
            raise ValueError("an ISO date such as 2026-11-30, not after today")
        return day.isoformat()

    @field_validator("region")
    @classmethod
    def _is_in_the_table(cls, value: str) -> str:
        if value != WORLD and value not in CLOUD_REGIONS:
            raise ValueError(f"one of {', '.join((WORLD, *CLOUD_REGIONS))}")
        return value

    @field_validator("catalog_regions")
    @classmethod
    def _are_cloud_regions(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if any(region not in CLOUD_REGIONS for region in value):
            raise ValueError(f"some of {', '.join(CLOUD_REGIONS)}, separated by ':'")
        return value

    @field_validator("peak_w")
    @classmethod
    def _peak_is_not_below_idle(cls, value: float, info: ValidationInfo) -> float:
        if value < info.data.get("idle_w", 0.0):
            raise ValueError(f"a number from {info.data['idle_w']:g}, the power at idle")
        return value

    @classmethod
    def from_environment(cls, environ: dict[str, str] | None = None) -> Settings:
        """Read ``PLIMSOLL_<NAME>`` variables; what is not set keeps its default.

        Raises:
            UserError: One or more of them cannot be used; one line per mistake.
        """
        source = dict(os.environ) if environ is None else environ
        values: dict[str, object] = {}
        for name in cls.model_fields:
            text = source.get(variable_of(name))
            if text is not None:
                values[name] = _listed(text) if name in _LISTS else text
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            # Without its cause: that one repeats values as they are, passwords included.
            raise UserError("\n".join(mistakes_of(error, cls, source))) from None

    def to_environment(self) -> dict[str, str]:
        """The variables that reproduce these settings in a child process."""
        out = {}
        for name in type(self).model_fields:
            value = getattr(self, name)
            out[variable_of(name)] = ":".join(map(str, value)) if name in _LISTS else str(value)
        return out


def _listed(text: str) -> tuple[str, ...]:
    return tuple(text.split(":")) if text else ()
