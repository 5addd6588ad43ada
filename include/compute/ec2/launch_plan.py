"""From a launch request to the calls that may serve it: candidates by rank, without those that cannot be had."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from include.compute.ec2 import tags as tag
from include.compute.ec2.clients import Ec2Clients
from include.compute.ec2.errors import Kind
from include.compute.ec2.families import SPOT
from include.compute.ec2.fleet import Pool, fleet_parameters, pools_of, rounds_of, volume_gib
from include.compute.ec2.launch_refusals import Refusals
from include.compute.ec2.launch_template import Template, ensure_template, root_device
from include.compute.ec2.quotas import QuotaCheck
from include.compute.ec2.user_data import render
from include.config.settings import Settings
from include.core.clock import Clock
from include.core.contracts.lease import LaunchCandidate, LaunchRequest
from include.core.errors import LaunchRefusedError, UserError

_RENTED = frozenset({SPOT, "on-demand", "reserved"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSite:
    """What all calls of one launch share.

    Attributes:
        template: Launch template.
        zones_of_subnets: Zone of each subnet that workers may run in; empty takes the default network.
        user_data: Boot script.
        root_device: Root device, where the lease needs a larger volume than the template's; else None.
    """

    template: Template
    zones_of_subnets: Mapping[str, str]
    user_data: str
    root_device: str | None


class LaunchPlanner:
    """Plans the calls of launches.

    Args:
        settings: Settings of the installation.
        clients: AWS clients.
        clock: Source of time.
        installation: Digest of the installation.
    """

    def __init__(self, *, settings: Settings, clients: Ec2Clients, clock: Clock, installation: str) -> None:
        self._settings = settings
        self._clients = clients
        self._clock = clock
        self._installation = installation

    def site(self, request: LaunchRequest) -> LaunchSite:
        """Look up, or make, what the calls of a launch share.

        Raises:
            LaunchRefusedError: The launch template, a subnet or what shall run cannot be used.
            botocore.exceptions.ClientError: EC2 refuses or fails.
        """
        reading = self._clients.reading()
        try:
            user_data = render(lease_id=request.lease_id, settings=self._settings)
        except UserError as error:
            raise LaunchRefusedError("an instance cannot be told what to run", found=str(error)) from error
        template = ensure_template(reading, self._clients.launching(), self._settings, installation=self._installation)
        larger = volume_gib(request, self._settings) > self._settings.ec2_volume_gib
        return LaunchSite(
            template=template,
            zones_of_subnets=self._zones_of_subnets(reading),
            user_data=user_data,
            root_device=root_device(reading, self._settings.ec2_ami or template.image_id) if larger else None,
        )

    def rounds(self, request: LaunchRequest, site: LaunchSite, refusals: Refusals) -> Iterator[tuple[Pool, ...]]:
        """Pools of each round, by rank; what was refused meanwhile is left out."""
        rentable = tuple(self._rentable(request, refusals))
        check = QuotaCheck(reading=self._clients.reading(), quotas=self._clients.quotas(), candidates=rentable)
        for candidates in rounds_of(rentable):
            fitting = [each for each in candidates if self._fits(each, request, check, refusals)]
            pools, placeless = pools_of(fitting, site.zones_of_subnets)
            for candidate in placeless:
                refusals.skip(candidate, kind=Kind.POOL, why="no subnet of PLIMSOLL_EC2_SUBNETS lies there")
            if pools:
                yield pools

    def parameters(
        self, request: LaunchRequest, pools: tuple[Pool, ...], site: LaunchSite, *, number: int
    ) -> dict[str, Any]:
        """The CreateFleet call of one round."""
        tags = tag.lease_tags(
            request,
            installation=self._installation,
            expires_at=self._clock.now().timestamp() + request.expires_after_s,
            launch=number,
        )
        return fleet_parameters(
            request=request,
            pools=pools,
            template=site.template,
            tags=tags,
            user_data=site.user_data,
            settings=self._settings,
            root_device=site.root_device,
        )

    def _rentable(self, request: LaunchRequest, refusals: Refusals) -> Iterator[LaunchCandidate]:
        for candidate in candidates_of(request, region=self._settings.ec2_region):
            if candidate.region != self._settings.ec2_region:
                refusals.skip(candidate, kind=Kind.POOL, why=f"not in {self._settings.ec2_region}")
            elif candidate.purchase not in _RENTED:
                refusals.skip(candidate, kind=Kind.POOL, why="not rented on EC2")
            else:
                _check_price(candidate)
                yield candidate

    @staticmethod
    def _fits(candidate: LaunchCandidate, request: LaunchRequest, check: QuotaCheck, refusals: Refusals) -> bool:
        if refusals.rules_out(candidate):
            return False
        verdict = check.verdict(candidate, instances=request.instances)
        if verdict is not None:
            # What others hold now may be free later; a quota that is too small stays so.
            refusals.skip(candidate, kind=Kind.QUOTA if verdict.for_good else Kind.CAPACITY, why=str(verdict))
        return verdict is None

    def _zones_of_subnets(self, reading: Any) -> dict[str, str]:  # noqa: ANN401 - boto3 has no types
        wanted = self._settings.ec2_subnets
        if not wanted:
            return {}
        found = reading.describe_subnets(SubnetIds=list(wanted))["Subnets"]
        zones = {item["SubnetId"]: item["AvailabilityZone"] for item in found}
        if missing := [subnet for subnet in wanted if subnet not in zones]:
            raise LaunchRefusedError("a subnet does not exist", found=", ".join(missing), where="PLIMSOLL_EC2_SUBNETS")
        return {subnet: zones[subnet] for subnet in wanted}


def _check_price(candidate: LaunchCandidate) -> None:
    """A price that is no price would make every figure of the lease wrong, and its limits void; unknown is None."""
    if candidate.usd_per_h is None:
        return
    try:
        usd = Decimal(candidate.usd_per_h)
    except InvalidOperation:
        usd = Decimal(0)
    if not usd.is_finite() or usd <= 0:
        raise LaunchRefusedError(
            "the price of a candidate cannot be used",
            where=f"{candidate.instance_type} {candidate.purchase}",
            found=repr(candidate.usd_per_h),
            allowed="a decimal number above 0, or none where it is unknown",
        )


def candidates_of(request: LaunchRequest, *, region: str) -> tuple[LaunchCandidate, ...]:
    """Candidates of a request; a request without any names its one type itself."""
    if request.candidates:
        return request.candidates
    return (
        LaunchCandidate(
            instance_type=request.instance_type,
            purchase=request.purchase,
            region=region,
            usd_per_h=request.usd_per_h,
        ),
    )
