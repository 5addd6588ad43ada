"""Clients of AWS for the catalog; credentials come from the process environment or the machine's role."""

from __future__ import annotations

from functools import cache
from typing import Any

# The Pricing service answers for all regions, in few of them.
_PRICING_REGION = "us-east-1"


class Boto3Clients:
    """Clients with retries, each made once."""

    def ec2(self, region: str) -> Any:
        """Client of EC2 in a region."""
        return _client("ec2", region)

    def pricing(self) -> Any:
        """Client of the Pricing service."""
        return _client("pricing", _PRICING_REGION)


@cache
def _client(service: str, region: str) -> Any:
    # Takes longer to import than a DAG file may take to parse.
    import boto3
    from botocore.config import Config

    config = Config(retries={"mode": "standard", "max_attempts": 5}, connect_timeout=10, read_timeout=60)
    return boto3.client(service, region_name=region, config=config)
