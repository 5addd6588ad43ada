"""Rented capacity of the ``work`` lease: compression and evaluation. Imported only where an installation rents it."""

from __future__ import annotations

from include.catalog.offers import load_offers
from include.compute.capacity_choice.candidates import type_candidates
from include.compute.capacity_choice.terms import may_use_on_demand, work_terms
from include.config.run_record import RunRecord
from include.core.clock import SystemClock
from include.core.errors import UserError
from plimsoll.hooks.capacity import Place
from plimsoll.hooks.installation import Installation


def work_place(run: RunRecord, installation: Installation) -> Place:
    """The type of the settings, on spot where the workload allows that, then on demand.

    Raises:
        UserError: The catalog does not offer the type in the installation's region.
    """
    settings, workload = installation.settings, run.workload
    catalog = load_offers(settings, today=SystemClock().now().date()).offers
    wanted = (settings.ec2_work_type, settings.ec2_region)
    offers = {
        (offer.purchase.value, offer.zone): offer
        for offer in catalog
        if (offer.instance_type, offer.region) == wanted and not offer.mig_profile
    }
    found = type_candidates(
        offers.values(),
        instance_type=settings.ec2_work_type,
        region=settings.ec2_region,
        on_demand_too=may_use_on_demand(workload),
        spot_too=workload.compute.purchase != "on-demand",
    )
    if not found:
        raise UserError(
            "the type of the work lease is not on offer",
            where="PLIMSOLL_EC2_WORK_TYPE",
            found=settings.ec2_work_type,
            allowed=f"a type that the catalog lists in {settings.ec2_region}",
            todo="choose another type or region, or run the DAG price_refresh",
        )
    return Place(
        offer=offers[found[0].purchase, found[0].zone],
        candidates=found,
        terms=work_terms(workload, home_region=settings.ec2_region),
    )
