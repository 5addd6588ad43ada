"""The quota file: what each team, and all teams together, may hold and spend (``PLIMSOLL_QUOTA_FILE``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from include.config.loader import read_model_file
from include.config.schedule import Edge
from include.config.settings import REPO, Settings
from include.core.contracts.plan import Criticality
from include.core.errors import UserError

DEFAULT = "default"
_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.@ -]{0,99}$"
_EXAMPLE = "keys: default, total, teams"
_CRITICALITIES = (Criticality.EXPLORATORY, Criticality.NORMAL, Criticality.CRITICAL)


def _exact(value: Any) -> Any:  # noqa: ANN401 - raw YAML
    """A number as the decimal that stands in the file, since 0.1 has none in binary; a truth value stays a mistake."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, float) else value


Usd = Annotated[Decimal, BeforeValidator(_exact), Field(ge=0, max_digits=18, decimal_places=8, allow_inf_nan=False)]


class Limits(Edge):
    """What live leases may hold at once and what a month may cost; None = not limited.

    Attributes:
        gpus: Accelerators of all live leases.
        usd_per_h: Price of one hour of all live leases.
        usd_per_month: What a calendar month (UTC) may cost, with what open leases are expected to spend.
    """

    gpus: int | None = Field(default=None, ge=0, le=1_000_000)
    usd_per_h: Usd | None = None
    usd_per_month: Usd | None = None


class TeamQuota(Limits):
    """Limits of one team.

    Attributes:
        priority: Where teams wait for what they share, the higher one goes first.
    """

    priority: int = Field(default=0, ge=-1000, le=1000)


class QuotaFile(Edge):
    """A whole quota file.

    Attributes:
        default: Quota of every team that is not named; None: they have none, and are limited by ``total`` alone.
        total: Limits of all teams together.
        teams: Quota of each named team; a team is the ``owner`` of its workloads.
    """

    default: TeamQuota | None = None
    total: Limits | None = None
    teams: dict[Annotated[str, Field(pattern=_NAME)], TeamQuota] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _default_is_no_team(self) -> QuotaFile:
        if DEFAULT in self.teams:
            raise ValueError("'default' is no team: write it beside 'teams', not below it")
        return self

    @model_validator(mode="after")
    def _teams_are_told_apart(self) -> QuotaFile:
        seen: dict[str, str] = {}
        for team in self.teams:
            if (other := seen.setdefault(team.lower(), team)) != team:
                raise ValueError(f"teams: '{other}' and '{team}' differ by case alone: one of them is a slip")
        return self


class Quotas(Mapping[str, TeamQuota]):
    """Quotas by team. A team that is not named has a copy of ``default`` to itself, where there is one.

    Args:
        file: What they were read from; None = there is no quota file, and nobody has a quota.
    """

    def __init__(self, file: QuotaFile | None = None) -> None:
        self._file = file or QuotaFile()

    def __getitem__(self, team: str) -> TeamQuota:
        quota = self._file.teams.get(team, self._file.default)
        if quota is None:
            raise KeyError(team)
        return quota

    def __iter__(self) -> Iterator[str]:
        """The teams that are named."""
        return iter(self._file.teams)

    def __len__(self) -> int:
        return len(self._file.teams)

    @property
    def total(self) -> Limits | None:
        """Limits of all teams together."""
        return self._file.total

    def priority(self, team: str, criticality: Criticality = Criticality.NORMAL) -> int:
        """Rank of a lease that waits: its team's priority first, then how critical its workload is."""
        quota = self.get(team)
        rank = _CRITICALITIES.index(criticality)
        return (0 if quota is None else quota.priority) * len(_CRITICALITIES) + rank


def load_quotas(settings: Settings) -> Quotas:
    """Quotas of this installation.

    Raises:
        UserError: The file cannot be read or has mistakes; one line for each of them.
    """
    if not settings.quota_file:
        return Quotas()
    return Quotas(read_quota_file(REPO / settings.quota_file))


def read_quota_file(path: Path) -> QuotaFile:
    """Parse and validate a quota file.

    Raises:
        UserError: The file cannot be read or has mistakes; one line for each of them.
    """
    todo = "mend the file, or unset PLIMSOLL_QUOTA_FILE; docs/how-to/share-gpus-between-teams.md shows one"
    if path.exists() and not path.is_file():
        # A pipe would be waited for without an end.
        raise UserError("cannot read the quota file", where=str(path), found="no plain file", todo=todo)
    return read_model_file(path, QuotaFile, what="quota", keys=_EXAMPLE, todo=todo)
