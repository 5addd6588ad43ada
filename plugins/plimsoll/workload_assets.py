"""Assets of a workload: the only home of their names.

They have names and no URI of their own: a URI with a scheme makes Airflow load every provider's SDK at each parse.
"""

from __future__ import annotations

from airflow.sdk import Asset

from include.config.schedule import AssetSchedule, CronSchedule
from include.config.workload import Workload


def dataset_asset(workload: Workload) -> Asset:
    """The prepared dataset of a workload; updated by its first job."""
    return Asset(name=f"dataset/{workload.name}")


def model_asset(workload: Workload) -> Asset:
    """The registered model of a workload; updated when a version is registered."""
    return Asset(name=f"model/{workload.name}")


def schedule_of(workload: Workload) -> str | list[Asset] | None:
    """Airflow schedule of a workload."""
    if isinstance(workload.schedule, CronSchedule):
        return workload.schedule.cron
    if isinstance(workload.schedule, AssetSchedule):
        return [Asset(name=workload.schedule.asset)]
    return None
