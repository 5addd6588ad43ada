"""Clients of AWS for the catalog and for the EC2 engine.

The engine's credentials come from the Airflow connection ``plimsoll_aws`` where there is one; all others, and the
engine's without it, from the process environment or the machine's role. Endpoints are those of the AWS SDK's own
variables, ``AWS_ENDPOINT_URL_EC2`` above all.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

_log = logging.getLogger(__name__)

CONNECTION = "plimsoll_aws"
# The Pricing service answers for all regions, in few of them.
_PRICING_REGION = "us-east-1"
_READING: Mapping[str, Any] = {
    "retries": {"mode": "standard", "total_max_attempts": 5},
    "connect_timeout": 10,
    "read_timeout": 60,
}
# The engine tries a launch again itself and looks at the error first: "no capacity" is a server error, for which the
# SDK would ask the same pool again for seconds.
_LAUNCHING: Mapping[str, Any] = {
    "retries": {"mode": "standard", "total_max_attempts": 2},
    "connect_timeout": 5,
    "read_timeout": 30,
}
# A quota that cannot be learnt is not checked: nobody waits long for it.
_QUOTAS: Mapping[str, Any] = {
    "retries": {"mode": "standard", "total_max_attempts": 2},
    "connect_timeout": 3,
    "read_timeout": 10,
}
# Making a client is not safe in several threads at once; using one is.
_one_at_a_time = threading.Lock()


class Boto3Clients:
    """Clients with retries, each made once."""

    def ec2(self, region: str) -> Any:
        """Client of EC2 in a region."""
        return _client("ec2", region)

    def pricing(self) -> Any:
        """Client of the Pricing service."""
        return _client("pricing", _PRICING_REGION)


@dataclass(frozen=True, slots=True)
class Credentials:
    """Keys of an Airflow connection; what is empty comes from the environment.

    Attributes:
        key_id: Access key id, the connection's login.
        secret: Secret key, the connection's password.
        token: Session token, ``aws_session_token`` in the connection's extra.
    """

    key_id: str = ""
    secret: str = field(default="", repr=False)
    token: str = field(default="", repr=False)


class EngineClients:
    """Clients of the EC2 engine for one region; see `include.compute.ec2.clients.Ec2Clients`.

    The connection is looked up when the first client is made, so that an engine that only reads the store needs none.

    Args:
        region: Region that the installation rents in.
        credentials: What the connection says, where it was looked up already: a trigger must not wait for Airflow in a
            thread.
    """

    def __init__(self, region: str, *, credentials: Credentials | None = None) -> None:
        self._region = region
        self._credentials = credentials

    def launching(self) -> Any:
        """EC2 for calls that change something: few retries of its own and short timeouts."""
        return self._client("ec2", "launching")

    def reading(self) -> Any:
        """EC2 for calls that describe."""
        return self._client("ec2", "reading")

    def quotas(self) -> Any:
        """Service Quotas."""
        return self._client("service-quotas", "quotas")

    def _client(self, service: str, purpose: str) -> Any:
        with _one_at_a_time:
            if self._credentials is None:
                self._credentials = connection_credentials()
            return _engine_client(service, self._region, purpose, self._credentials)


def connection_credentials() -> Credentials:
    """Keys of the connection, empty ones where there is no such connection or nobody to ask for it."""
    try:
        from airflow.sdk import BaseHook

        return _credentials_of(BaseHook.get_connection(CONNECTION))
    except Exception as error:  # noqa: BLE001 - outside a task there is no Airflow to ask, which is no mistake
        return _no_connection(error)


async def connection_credentials_async() -> Credentials:
    """`connection_credentials` for triggers: never blocks the event loop."""
    try:
        from airflow.sdk import BaseHook

        return _credentials_of(await BaseHook.aget_connection(CONNECTION))
    except Exception as error:  # noqa: BLE001 - see above
        return _no_connection(error)


def _no_connection(error: Exception) -> Credentials:
    _log.debug("no connection %s (%s): credentials come from the environment", CONNECTION, type(error).__name__)
    return Credentials()


def _credentials_of(connection: Any) -> Credentials:
    return Credentials(
        key_id=connection.login or "",
        secret=connection.password or "",
        token=str(connection.extra_dejson.get("aws_session_token", "")),
    )


@cache
def _engine_client(service: str, region: str, purpose: str, credentials: Credentials) -> Any:
    # Takes longer to import than a DAG file may take to parse.
    import boto3
    from botocore.config import Config

    config = Config(**{"launching": _LAUNCHING, "reading": _READING, "quotas": _QUOTAS}[purpose])
    session = boto3.Session(
        aws_access_key_id=credentials.key_id or None,
        aws_secret_access_key=credentials.secret or None,
        aws_session_token=credentials.token or None,
        region_name=region,
    )
    return session.client(service, config=config, endpoint_url=_endpoint(service, os.environ))


def _endpoint(service: str, environ: Mapping[str, str]) -> str | None:
    """Where EC2 is stood in for, its quotas are too; None leaves it to the SDK."""
    if service == "service-quotas" and "AWS_ENDPOINT_URL_SERVICE_QUOTAS" not in environ:
        return environ.get("AWS_ENDPOINT_URL_EC2")
    return None


@cache
def _client(service: str, region: str) -> Any:
    # Takes longer to import than a DAG file may take to parse.
    import boto3
    from botocore.config import Config

    config = Config(retries={"mode": "standard", "max_attempts": 5}, connect_timeout=10, read_timeout=60)
    return boto3.client(service, region_name=region, config=config)
