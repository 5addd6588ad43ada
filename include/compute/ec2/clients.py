"""The AWS clients that the EC2 engine is given."""

from __future__ import annotations

from typing import Any, Protocol


class Ec2Clients(Protocol):
    """Clients for one region, credentials and endpoints included."""

    def launching(self) -> Any:  # noqa: ANN401 - boto3 has no types
        """EC2 for calls that change something: few retries of its own and short timeouts."""
        ...

    def reading(self) -> Any:  # noqa: ANN401 - boto3 has no types
        """EC2 for calls that describe: retries of its own."""
        ...

    def quotas(self) -> Any:  # noqa: ANN401 - boto3 has no types
        """Service Quotas."""
        ...
