"""vCPU quotas of the account, checked before a launch against what runs. What cannot be learnt is not checked."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from include.compute.ec2.errors import code_of
from include.compute.ec2.families import ON_DEMAND, SPOT, VcpuQuota, quota_of
from include.compute.ec2.fleet import market_of
from include.core.contracts.lease import LaunchCandidate

_log = logging.getLogger("plimsoll.compute")

_MOST_TYPES = 100
_RUNNING = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaVerdict:
    """Why a candidate is over a quota.

    Attributes:
        quota: The quota.
        limit: Its value in vCPUs.
        used: vCPUs that run now.
        wanted: vCPUs that the lease would add.
    """

    quota: VcpuQuota
    limit: float
    used: int
    wanted: int

    @property
    def for_good(self) -> bool:
        """Whether the lease would not fit even if nothing else ran."""
        return self.wanted > self.limit

    def __str__(self) -> str:
        return f"{self.quota}: {self.wanted} vCPUs wanted, {self.used} used of {self.limit:g}"


class QuotaCheck:
    """Looks quotas and running vCPUs up once, when they are first needed.

    Args:
        reading: Client of EC2 for describing.
        quotas: Client of Service Quotas.
        candidates: Candidates of the launch; they say how many vCPUs their types have.
    """

    def __init__(
        self,
        *,
        reading: Any,  # noqa: ANN401 - boto3 has no types
        quotas: Any,  # noqa: ANN401 - boto3 has no types
        candidates: Iterable[LaunchCandidate],
    ) -> None:
        self._vcpus = {each.instance_type: each.vcpus for each in candidates if each.vcpus}
        self._reading = reading
        self._quotas = quotas
        self._limits: dict[str, float | None] = {}
        self._used: Counter[VcpuQuota] | None = None

    def verdict(self, candidate: LaunchCandidate, *, instances: int) -> QuotaVerdict | None:
        """Why a candidate is over its quota; None where it fits or where that cannot be known."""
        quota = quota_of(candidate.instance_type, market_of(candidate))
        if quota is None or not candidate.vcpus:
            return None
        limit = self._limit(quota)
        if limit is None:
            return None
        wanted = candidate.vcpus * instances
        used = self._running()[quota]
        if wanted + used <= limit:
            return None
        return QuotaVerdict(quota=quota, limit=limit, used=used, wanted=wanted)

    def _limit(self, quota: VcpuQuota) -> float | None:
        if quota.code not in self._limits:
            self._limits[quota.code] = self._ask(quota)
        return self._limits[quota.code]

    def _ask(self, quota: VcpuQuota) -> float | None:
        try:
            answer = self._quotas.get_service_quota(ServiceCode="ec2", QuotaCode=quota.code)
        except Exception as error:  # noqa: BLE001 - whatever the reason, EC2 itself checks again
            _log.info("quota %s is not checked: %s", quota, code_of(error))
            return None
        return float(answer["Quota"]["Value"])

    def _running(self) -> Counter[VcpuQuota]:
        """Running vCPUs of the whole account by quota; those of unknown types are left out."""
        if self._used is None:
            try:
                self._used = self._count()
            except Exception as error:  # noqa: BLE001 - whatever the reason, EC2 itself checks again
                _log.info("what runs is not counted against quotas: %s", code_of(error))
                self._used = Counter()
        return self._used

    def _count(self) -> Counter[VcpuQuota]:
        running: Counter[tuple[str, str]] = Counter()
        for page in self._reading.get_paginator("describe_instances").paginate(Filters=_RUNNING):
            for reservation in page["Reservations"]:
                for item in reservation["Instances"]:
                    market = SPOT if item.get("InstanceLifecycle") == "spot" else ON_DEMAND
                    running[item["InstanceType"], market] += 1
        self._learn({kind for kind, _ in running} - set(self._vcpus))
        used: Counter[VcpuQuota] = Counter()
        for (kind, market), count in running.items():
            if quota := quota_of(kind, market):
                used[quota] += count * self._vcpus.get(kind, 0)
        return used

    def _learn(self, types: Iterable[str]) -> None:
        """Ask for the vCPUs of types that no candidate told."""
        wanted = sorted(types)
        for start in range(0, len(wanted), _MOST_TYPES):
            answer = self._reading.describe_instance_types(InstanceTypes=wanted[start : start + _MOST_TYPES])
            for item in answer["InstanceTypes"]:
                self._vcpus[item["InstanceType"]] = int(item["VCpuInfo"]["DefaultVCpus"])
