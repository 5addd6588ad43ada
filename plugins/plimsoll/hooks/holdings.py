"""Everything that this installation may hold, for whoever has to find all of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plimsoll.hooks.installation import Installation

if TYPE_CHECKING:
    from include.compute.holdings import Holdings


def holdings_of(installation: Installation) -> Holdings:
    """The witnesses of an installation; EC2 is asked where it rents there."""
    from include.compute.holdings import Holdings
    from plimsoll.hooks.aws_clients import EngineClients

    settings = installation.settings
    return Holdings(
        store=installation.store,
        ledger=installation.ledger,
        engine=installation.engine,
        driver=installation.driver,
        ec2=EngineClients(settings.ec2_region).reading() if settings.engine == "ec2" else None,
    )
