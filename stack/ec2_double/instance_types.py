"""DescribeInstanceTypes: what moto knows of the catalog's types, read without moto's models, which take seconds."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from stack.ec2_double.account import Account
from stack.ec2_double.answers import page, select
from stack.ec2_double.errors import AwsError
from stack.ec2_double.market import catalog_types


@cache
def _described() -> Mapping[str, Mapping[str, Any]]:
    """Descriptions by type, in boto3's form."""
    found = find_spec("moto")
    if found is None or found.origin is None:
        raise AwsError("Unavailable", "types are described by moto's data: pip install -r requirements/dev.in")
    path = Path(found.origin).parent / "ec2" / "resources" / "instance_types.json.gz"
    described: Mapping[str, Mapping[str, Any]] = json.loads(gzip.decompress(path.read_bytes()))
    return described


def _description(account: Account, kind: str) -> Mapping[str, Any]:
    own = account.market.rules.types.get(kind)
    if own is None:
        return _described()[kind]
    return {"InstanceType": kind, "VCpuInfo": {"DefaultVCpus": own}}


def describe_instance_types(account: Account, region: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """DescribeInstanceTypes: by name, else all that the region offers."""
    market = account.market
    zones = market.zones(region)
    wanted = parameters.get("InstanceTypes")
    offered = [
        kind
        for kind in sorted({*catalog_types(), *market.rules.types})
        if (not wanted or kind in wanted) and any(market.offers(kind, zone) for zone in zones)
    ]
    if missing := sorted(set(wanted or ()) - set(offered)):
        raise AwsError(
            "InvalidInstanceType", f"The following supplied instance types do not exist: [{', '.join(missing)}]"
        )
    readers = {"instance-type": lambda each: str(each["InstanceType"])}
    described = [_description(account, kind) for kind in offered]
    chosen = select(described, parameters.get("Filters"), readers=readers, tags=lambda _: {})
    shown, token = page(chosen, parameters)
    return {"InstanceTypes": shown, "NextToken": token}
