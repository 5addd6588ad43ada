"""Service quotas of running instances, in vCPUs per region, and the service that shows them.

Codes and names follow "Amazon EC2 endpoints and quotas" of the AWS General Reference.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stack.ec2_double.account import Account
from stack.ec2_double.errors import AwsError

# What an account has where the market names no quota.
DEFAULT_VCPUS = 1152


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """One quota.

    Attributes:
        code: Code of the service quotas service.
        name: Its name there.
        purchase: Purchase option that it limits.
        families: Regular expression of the families that it limits.
    """

    code: str
    name: str
    purchase: str
    families: str


QUOTAS = (
    Quota(code="L-417A185B", name="Running On-Demand P instances", purchase="on-demand", families=r"p\d"),
    Quota(code="L-DB2E81BA", name="Running On-Demand G and VT instances", purchase="on-demand", families=r"(gr?|vt)\d"),
    Quota(code="L-1945791B", name="Running On-Demand Inf instances", purchase="on-demand", families=r"inf\d"),
    Quota(code="L-2C3B7624", name="Running On-Demand Trn instances", purchase="on-demand", families=r"trn\d"),
    Quota(
        code="L-1216C47A",
        name="Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances",
        purchase="on-demand",
        families=r"[acdhimrtz]\d",
    ),
    Quota(code="L-C4BD4855", name="All P5 Spot Instance Requests", purchase="spot", families=r"p5"),
    Quota(code="L-7212CCBC", name="All P4, P3 and P2 Spot Instance Requests", purchase="spot", families=r"p[234]"),
    Quota(code="L-3819A6DF", name="All G and VT Spot Instance Requests", purchase="spot", families=r"(gr?|vt)\d"),
    Quota(code="L-B5D1601B", name="All Inf Spot Instance Requests", purchase="spot", families=r"inf\d"),
    Quota(code="L-6B0D517C", name="All Trn Spot Instance Requests", purchase="spot", families=r"trn\d"),
    Quota(
        code="L-34B43A08",
        name="All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests",
        purchase="spot",
        families=r"[acdhimrtz]\d",
    ),
)


def quota_of(instance_type: str, purchase: str) -> Quota | None:
    """The quota that a type counts against, None where no code is known here."""
    fitting = (quota for quota in QUOTAS if quota.purchase == purchase and re.match(quota.families, instance_type))
    return next(fitting, None)


def allowed_vcpus(account: Account, quota: Quota) -> int:
    """Virtual CPUs that an account may run against a quota."""
    return account.market.rules.quotas.get(quota.code, DEFAULT_VCPUS)


def vcpus_left(account: Account, *, instance_type: str, purchase: str, region: str) -> int | None:
    """Virtual CPUs that are left of the quota of a type, None where nothing limits it."""
    quota = quota_of(instance_type, purchase)
    if quota is None:
        return None
    used = sum(
        account.market.vcpus(found.instance_type)
        for found in account.live(region=region)
        if quota_of(found.instance_type, found.purchase) is quota
    )
    return allowed_vcpus(account, quota) - used


def _shown(account: Account, quota: Quota, region: str) -> dict[str, Any]:
    return {
        "ServiceCode": "ec2",
        "ServiceName": "Amazon Elastic Compute Cloud (Amazon EC2)",
        "QuotaArn": f"arn:aws:servicequotas:{region}:{account.account_id}:ec2/{quota.code}",
        "QuotaCode": quota.code,
        "QuotaName": quota.name,
        "Value": float(allowed_vcpus(account, quota)),
        "Unit": "None",
        "Adjustable": True,
        "GlobalQuota": False,
    }


def answer_quotas(account: Account, region: str, action: str, document: Mapping[str, Any]) -> dict[str, Any] | None:
    """GetServiceQuota and ListServiceQuotas of service ``ec2``; None for what the double does not answer itself.

    Raises:
        AwsError: There is no such quota.
    """
    if document.get("ServiceCode") != "ec2":
        return None
    if action in {"ListServiceQuotas", "ListAWSDefaultServiceQuotas"}:
        return {"Quotas": [_shown(account, quota, region) for quota in QUOTAS]}
    if action in {"GetServiceQuota", "GetAWSDefaultServiceQuota"}:
        for quota in QUOTAS:
            if quota.code == document.get("QuotaCode"):
                return {"Quota": _shown(account, quota, region)}
        raise AwsError("NoSuchResourceException", "The specified quota does not exist.")
    return None
