"""AWS clients of the stack and its commands, pointed to the EC2 double where the stack has one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stack import ec2_local
from stack.ports import Ports

_LAUNCH_TIMEOUT_S = 20
_READ_TIMEOUT_S = 60


class StackClients:
    """Clients as the EC2 engine takes them, and as the catalog does.

    Args:
        region: The region.
        ports: Ports of the stack: where it has an EC2 double, that is what all clients talk to; None has none.
    """

    def __init__(self, region: str, ports: Ports | None) -> None:
        self._region = region
        # Given to the clients, not to the environment, so that other programs of this process stay as they are.
        self._variables: Mapping[str, str] = (
            ec2_local.client_variables(ports) if ports is not None and ports.ec2 is not None else {}
        )
        self._made: dict[tuple[str, str, int], Any] = {}

    def launching(self) -> Any:  # noqa: ANN401 - boto3 has no types
        """EC2 for calls that change something: the engine itself says what is tried again."""
        return self._client("ec2", attempts=1, timeout_s=_LAUNCH_TIMEOUT_S)

    def reading(self) -> Any:  # noqa: ANN401 - boto3 has no types
        """EC2 for calls that describe, and for those that end something and may be repeated."""
        return self._client("ec2", attempts=5, timeout_s=_READ_TIMEOUT_S)

    def quotas(self) -> Any:  # noqa: ANN401 - boto3 has no types
        """Service Quotas."""
        return self._client("service-quotas", attempts=5, timeout_s=_READ_TIMEOUT_S)

    def ec2(self, region: str) -> Any:  # noqa: ANN401 - boto3 has no types
        """EC2 in any region, for types and spot prices."""
        return self._client("ec2", attempts=5, timeout_s=_READ_TIMEOUT_S, region=region)

    def pricing(self) -> Any:  # noqa: ANN401 - boto3 has no types
        """The Pricing service."""
        return self._client("pricing", attempts=5, timeout_s=_READ_TIMEOUT_S)

    def _client(self, service: str, *, attempts: int, timeout_s: int, region: str = "") -> Any:  # noqa: ANN401 - see above
        key = (service, region or self._region, attempts)
        if key not in self._made:
            import boto3
            from botocore.config import Config

            retries = {"mode": "standard", "total_max_attempts": attempts}
            self._made[key] = boto3.client(
                service,
                region_name=region or self._region,
                config=Config(retries=retries, connect_timeout=10, read_timeout=timeout_s),
                **self._where(service),
            )
        return self._made[key]

    def _where(self, service: str) -> dict[str, str]:
        if not self._variables:
            return {}
        return {
            "endpoint_url": self._variables[f"AWS_ENDPOINT_URL_{service.upper().replace('-', '_')}"],
            "aws_access_key_id": self._variables["AWS_ACCESS_KEY_ID"],
            "aws_secret_access_key": self._variables["AWS_SECRET_ACCESS_KEY"],
        }
