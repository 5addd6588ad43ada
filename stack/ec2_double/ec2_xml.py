"""The EC2 query protocol: flat parameters to nested ones and results to XML, by the service model that boto3 uses.

Names follow the protocol: a parameter is called by its query name, else by its location name with a capital, else by
its own name; lists are numbered from 1; a list of a result is made of ``item`` elements.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from html import escape
from typing import Any

from stack.ec2_double.errors import Answer, AwsError

_NAMESPACE = "http://ec2.amazonaws.com/doc/2016-11-15/"


@cache
def shared_session() -> Any:  # noqa: ANN401 - botocore has no types
    """One botocore session per process: it keeps the service models, which take half a second to read."""
    import botocore.session

    return botocore.session.Session()


@cache
def _model() -> Any:  # noqa: ANN401 - botocore has no types
    return shared_session().get_service_model("ec2")


@cache
def known_actions() -> frozenset[str]:
    """Every action that EC2 has."""
    return frozenset(_model().operation_names)


def read_parameters(action: str, flat: Mapping[str, str]) -> dict[str, Any]:
    """Flat parameters as boto3 would take them.

    Raises:
        AwsError: EC2 has no such action, or a value is not of its type.
    """
    if action not in known_actions():
        raise AwsError("InvalidAction", f"The action {action} is not valid for this web service.")
    tree: dict[str, Any] = {}
    for name, value in flat.items():
        *path, last = name.split(".")
        node = tree
        for part in path:
            node = node.setdefault(part, {})
        node[last] = value
    shape = _model().operation_model(action).input_shape
    try:
        return _read(shape, tree) if shape is not None else {}
    except ValueError as error:
        raise AwsError("InvalidParameterValue", str(error)) from error


def _query_name(shape: Any, name: str) -> str:  # noqa: ANN401 - botocore has no types
    found = shape.serialization.get("queryName")
    if found is not None:
        return str(found)
    found = str(shape.serialization.get("name", name))
    return found[:1].upper() + found[1:]


_READERS: dict[str, Callable[[str], Any]] = {
    "integer": int,
    "long": int,
    "float": float,
    "double": float,
    "boolean": lambda text: text.lower() == "true",
    "timestamp": lambda text: datetime.fromisoformat(text).astimezone(UTC),
    "blob": base64.b64decode,
}


def _read(shape: Any, node: Any) -> Any:  # noqa: ANN401 - botocore has no types
    kind = shape.type_name
    if kind == "structure":
        names = ((name, member, _query_name(member, name)) for name, member in shape.members.items())
        return {name: _read(member, node[query]) for name, member, query in names if query in node}
    if kind == "list":
        return [_read(shape.member, node[key]) for key in sorted(node, key=int)]
    return _READERS.get(kind, str)(node)


def write_flat(action: str, parameters: Mapping[str, Any]) -> dict[str, str]:
    """Parameters as boto3 takes them, flat as they are on the wire.

    Raises:
        KeyError: The action has no such parameter.
    """
    flat: dict[str, str] = {}
    shape = _model().operation_model(action).input_shape
    if shape is not None:
        _flatten(shape, parameters, "", flat)
    return flat


def _flatten(shape: Any, value: Any, name: str, flat: dict[str, str]) -> None:  # noqa: ANN401 - botocore has no types
    kind = shape.type_name
    if kind == "structure":
        for key, item in value.items():
            member = shape.members[key]
            _flatten(member, item, f"{name}.{_query_name(member, key)}" if name else _query_name(member, key), flat)
    elif kind == "list":
        for number, item in enumerate(value, start=1):
            _flatten(shape.member, item, f"{name}.{number}", flat)
    else:
        flat[name] = _text(kind, value)


def write_result(action: str, result: Mapping[str, Any], *, request_id: str) -> Answer:
    """A result, in the form in which boto3 shows it, as EC2's XML.

    Raises:
        KeyError: The result has a member that the service model does not know.
    """
    out = [f'<?xml version="1.0" encoding="UTF-8"?>\n<{action}Response xmlns="{_NAMESPACE}">']
    out.append(f"<requestId>{request_id}</requestId>")
    shape = _model().operation_model(action).output_shape
    if shape is None:
        out.append("<return>true</return>")
    else:
        _write_members(shape, result, out)
    out.append(f"</{action}Response>")
    headers = {"Content-Type": "text/xml;charset=UTF-8", "x-amzn-RequestId": request_id}
    return 200, headers, "".join(out).encode()


def _write_members(shape: Any, value: Mapping[str, Any], out: list[str]) -> None:  # noqa: ANN401 - botocore has no types
    for name, item in value.items():
        if item is not None:
            member = shape.members[name]
            _write(member, member.serialization.get("name", name), item, out)


def _write(shape: Any, name: str, value: Any, out: list[str]) -> None:  # noqa: ANN401 - botocore has no types
    kind = shape.type_name
    out.append(f"<{name}>")
    if kind == "structure":
        _write_members(shape, value, out)
    elif kind == "list":
        for item in value:
            _write(shape.member, "item", item, out)
    else:
        out.append(_text(kind, value))
    out.append(f"</{name}>")


def _text(kind: str, value: Any) -> str:  # noqa: ANN401 - any scalar
    if kind == "boolean":
        return "true" if value else "false"
    if kind == "timestamp":
        return f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%S}.{value.microsecond // 1000:03d}Z"
    if kind == "blob":
        return base64.b64encode(value).decode()
    return escape(str(value))
