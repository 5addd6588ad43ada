"""When a workload runs by itself."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator


class Edge(BaseModel):
    """Base of every model at the edge: frozen, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class NoSchedule(Edge):
    """Runs only when a person or the API triggers it."""

    kind: Literal["none"] = "none"


class CronSchedule(Edge):
    """Runs on a cron expression, in UTC."""

    kind: Literal["cron"]
    cron: str = Field(description="Five-field cron expression in UTC, for example '0 3 * * 1'.")

    @field_validator("cron")
    @classmethod
    def _parses(cls, value: str) -> str:
        from croniter import croniter  # noqa: PLC0415 - only files with a cron need it

        if len(value.split()) != 5 or not croniter.is_valid(value):  # noqa: PLR2004 - five fields make a cron
            raise ValueError("not a cron expression of five fields: minute hour day month weekday, e.g. '0 3 * * 1'")
        return value


class AssetSchedule(Edge):
    """Runs when a dataset asset is updated."""

    kind: Literal["asset"]
    asset: str = Field(description="Name of the asset, for example 'raw/titanic'.", pattern=r"^[a-z0-9][a-z0-9/_-]*$")


Schedule = Annotated[NoSchedule | CronSchedule | AssetSchedule, Field(discriminator="kind")]
