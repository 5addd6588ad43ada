"""When a workload runs by itself."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator


def _types_in(annotation: Any) -> set[Any]:  # noqa: ANN401 - any annotation
    """All types that an annotation is made of."""
    return {annotation}.union(*(_types_in(part) for part in get_args(annotation)))


def _as_text(value: Any) -> Any:  # noqa: ANN401 - raw input
    """Truth values as text, also those in a list; anything else as it is."""
    if isinstance(value, list | tuple):
        return [_as_text(item) for item in value]
    return str(value).lower() if isinstance(value, bool) else value


class Edge(BaseModel):
    """Base of every model at the edge: frozen, unknown keys are errors, numbers are finite and no truth values."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _no_truth_value_as_number(cls, value: Any) -> Any:  # noqa: ANN401 - raw input
        # `yes` in YAML is True, which pydantic takes for 1; as text it is refused at its own key. A validator of the
        # fields would do as well, were it allowed on the discriminators of unions.
        if not isinstance(value, dict):
            return value
        return {key: _as_text(item) if cls._is_number(key) else item for key, item in value.items()}

    @classmethod
    def _is_number(cls, key: Any) -> bool:  # noqa: ANN401 - raw input
        field = cls.model_fields.get(key) if isinstance(key, str) else None
        types = _types_in(field.annotation) if field else set()
        return bool not in types and not types.isdisjoint({int, float})


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
