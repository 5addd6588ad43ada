"""What the planner is asked for one run: the order as this installation can carry it out, with prices of today."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from include.catalog.refresh import AwsClients, refresh_catalog
from include.catalog.refreshed_file import read_refreshed
from include.config.run_record import RunRecord
from include.config.workload import Workload
from include.core.errors import CatalogRefreshError, UserError
from include.sizing.question import with_engine
from plimsoll.hooks.installation import Installation
from plimsoll.hooks.run_budget import run_budget

_log = logging.getLogger(__name__)
_EC2 = "ec2"


def planned_order(run: RunRecord, installation: Installation) -> Workload:
    """The workload with the engine, the regions and the budget that hold here.

    Raises:
        UserError: It asks for an engine or for regions that this installation does not rent in.
    """
    settings = installation.settings
    workload = with_engine(run.workload, settings)
    budget = run_budget(run, installation)
    limits = workload.limits.model_copy(update={"budget_usd": None if budget is None else float(budget)})
    workload = workload.model_copy(update={"limits": limits})
    if workload.compute.engine != _EC2:
        return workload
    if settings.engine != _EC2:
        raise UserError(
            "the workload asks for an engine that this installation does not have",
            where="compute.engine",
            found=_EC2,
            allowed="local, or none for the installation's own",
            todo="set PLIMSOLL_ENGINE=ec2 where instances may be rented, see docs/how-to/rent-on-ec2.md",
        )
    if settings.ec2_region not in workload.compute.regions:
        raise UserError(
            "the workload asks for regions that this installation does not rent in",
            where="compute.regions",
            found=", ".join(workload.compute.regions),
            allowed=f"{settings.ec2_region} (PLIMSOLL_EC2_REGION)",
        )
    compute = workload.compute.model_copy(update={"regions": (settings.ec2_region,)})
    return workload.model_copy(update={"compute": compute})


def ensure_spot_prices(installation: Installation, *, now: datetime, clients: Callable[[], AwsClients]) -> str:
    """See to it that the spot prices of the region that is rented in are not stale; without them spot is never chosen.

    Args:
        installation: Settings and store.
        now: Time of the question.
        clients: Makes the clients, where they are needed.

    Returns:
        What could not be had, for the log; empty where all is well.
    """
    settings = installation.settings
    if settings.engine != _EC2:
        return ""
    refreshed, _ = read_refreshed(installation.store)
    region, oldest = settings.ec2_region, now.date() - timedelta(days=settings.spot_price_stale_after_days)
    quotes = () if refreshed is None else refreshed.quotes
    if any(quote.purchase == "spot" and quote.region == region and quote.as_of > oldest for quote in quotes):
        return ""
    asked = dict.fromkeys((region, *(() if refreshed is None else refreshed.regions)))
    try:
        refresh_catalog(store=installation.store, clients=clients(), regions=tuple(asked), now=now)
    except CatalogRefreshError as error:
        return f"spot prices of {region} cannot be refreshed: {error}"
    except Exception as error:  # noqa: BLE001 - no credentials, no network: the plan is made with what is known
        return f"spot prices of {region} cannot be asked for: {type(error).__name__}: {error}"
    _log.info("spot prices of %s were refreshed", region)
    return ""
