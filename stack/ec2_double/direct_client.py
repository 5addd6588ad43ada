"""A client that skips requests, signatures and XML: some four times as fast as boto3's, for very many calls.

Parameters still go through the wire's flat form, so faults, tokens and the checks of the double see the same as ever.
What it lacks: retries, waiters, boto3's own check of parameters, and whatever is left to moto.
"""

from __future__ import annotations

import base64
import copy
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

from stack.ec2_double.ec2_xml import shared_session, write_flat
from stack.ec2_double.errors import Answer, AnswerLostError, AwsError
from stack.ec2_double.wire import Call

Perform = Callable[[Call], dict[str, Any] | Answer]
# Name that a service is signed for, where it differs from that of its client.
_SIGNED = {"service-quotas": "servicequotas"}


@cache
def _operations(service: str) -> dict[str, str]:
    from botocore import xform_name

    return {xform_name(name): name for name in shared_session().get_service_model(service).operation_names}


@cache
def _paginated(service: str) -> frozenset[str]:
    session = shared_session()
    names = session.get_component("data_loader").load_service_model(service, "paginators-1")["pagination"]
    return frozenset(method for method, name in _operations(service).items() if name in names)


class _Exceptions:
    """What the ``exceptions`` of a boto3 client offers of it."""

    @property
    def ClientError(self) -> type[Exception]:  # noqa: N802 - boto3's name
        """Base of all refusals."""
        from botocore.exceptions import ClientError

        return ClientError


class DirectClient:
    """Has the methods of a boto3 client for what the double holds itself.

    Args:
        perform: `Ec2Double.perform`.
        service: ``ec2``, ``pricing`` or ``service-quotas``.
        region: Region.
    """

    exceptions = _Exceptions()

    def __init__(self, perform: Perform, *, service: str, region: str) -> None:
        self._perform = perform
        self._service = service
        self._region = region

    def __getattr__(self, name: str) -> Callable[..., dict[str, Any]]:
        """The method of an action."""
        operations = _operations(self._service)
        if name.startswith("_") or name not in operations:
            raise AttributeError(f"{self._service} has no {name}")
        return partial(self._call, operations[name])

    def can_paginate(self, operation: str) -> bool:
        """Whether boto3 has a paginator for a method."""
        return operation in _paginated(self._service)

    def get_paginator(self, operation: str) -> _Paginator:
        """Pages of a method that has them."""
        return _Paginator(getattr(self, operation))

    def _call(self, action: str, **parameters: Any) -> dict[str, Any]:  # noqa: ANN401 - an action's parameters
        from botocore.exceptions import ClientError, ConnectionClosedError

        is_ec2 = self._service == "ec2"
        if action == "RunInstances" and "UserData" in parameters:
            # Of all actions boto3 encodes the user data of this one alone.
            parameters = {**parameters, "UserData": base64.b64encode(parameters["UserData"].encode()).decode()}
        call = Call(
            service=_SIGNED.get(self._service, self._service),
            region=self._region,
            action=action,
            protocol="ec2" if is_ec2 else "json",
            parameters=write_flat(action, parameters) if is_ec2 else parameters,
        )
        try:
            result = self._perform(call)
        except AnswerLostError as error:
            raise ConnectionClosedError(endpoint_url=f"double://{self._service}", error=error) from error
        except AwsError as error:
            response = {
                "Error": {"Code": error.code, "Message": error.message},
                "ResponseMetadata": {"HTTPStatusCode": error.status, "RetryAttempts": 0},
            }
            raise ClientError(response, action) from error
        assert isinstance(result, dict)
        # A caller may change what it was given; the double's books must not change with it.
        return {**_plain(result), "ResponseMetadata": {"HTTPStatusCode": 200, "RetryAttempts": 0}}


def _plain(value: Any) -> Any:  # noqa: ANN401 - any part of a result
    """A copy without what is None: boto3 leaves that out."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return copy.copy(value)


class _Paginator:
    """Pages by ``NextToken``, which all that the double pages has."""

    def __init__(self, method: Callable[..., dict[str, Any]]) -> None:
        self._method = method

    def paginate(self, PaginationConfig: dict[str, Any] | None = None, **parameters: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401, N803 - boto3's name
        """Page after page."""
        if PaginationConfig and "PageSize" in PaginationConfig:
            parameters["MaxResults"] = PaginationConfig["PageSize"]
        page = self._method(**parameters)
        yield page
        while token := page.get("NextToken"):
            page = self._method(**parameters, NextToken=token)
            yield page
