"""The double's own routes below ``/_double/``: what a test or a drill asks that EC2 would not answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import datetime
from decimal import Decimal
from typing import Any

from pydantic import ValidationError

from include.config.schedule import Edge
from stack.ec2_double.double import Ec2Double
from stack.ec2_double.errors import Answer
from stack.ec2_double.faults import Fault
from stack.ec2_double.records import Instance

PREFIX = "/_double/"
LEASE_TAG = "plimsoll:lease"
_JSON = {"Content-Type": "application/json"}


class _Refused(Exception):  # noqa: N818 - it never leaves this file
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def answer_control(double: Ec2Double, *, method: str, path: str, body: bytes) -> Answer:
    """Answer a request to one of the double's own routes.

    GET ``health``, ``instances``, ``bill``, ``counters``, ``faults``; POST ``interrupt`` and ``rebalance`` (JSON with
    ``instance`` or ``lease``, ``notice_s``), POST ``faults`` (``rules``, ``forbidden``), DELETE ``faults``.
    """
    route = _ROUTES.get((method, path.partition("?")[0].removeprefix(PREFIX)))
    if route is None:
        return 404, _JSON, _encoded({"error": f"there is no {method} {path}"})
    try:
        return 200, _JSON, _encoded(route(double, _document(body)))
    except _Refused as refused:
        return refused.status, _JSON, _encoded({"error": str(refused)})
    except (ValueError, TypeError, ValidationError) as error:
        return 400, _JSON, _encoded({"error": str(error)})


def _document(body: bytes) -> Mapping[str, Any]:
    document = json.loads(body or b"{}")
    if not isinstance(document, dict):
        raise _Refused(400, f"the body is a JSON object, not {body[:100].decode(errors='replace')}")
    return document


def _encoded(value: Any) -> bytes:  # noqa: ANN401 - anything that JSON has
    return json.dumps(value, default=_plain).encode()


def _plain(value: Any) -> Any:  # noqa: ANN401 - what JSON lacks
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _health(double: Ec2Double, _: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON
    return {"status": "healthy", "account_id": double.account_id}


def _instances(double: Ec2Double, _: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON
    return [_shown(instance) for instance in double.instances()]


def _shown(instance: Instance) -> dict[str, Any]:
    return {
        "instance_id": instance.instance_id,
        "instance_type": instance.instance_type,
        "purchase": instance.purchase,
        "region": instance.region,
        "zone": instance.zone,
        "state": instance.state.value,
        "reason": instance.reason.code if instance.reason else None,
        "tags": instance.tags,
        "usd_per_h": instance.usd_per_h,
        "launched_at": instance.launched_at,
        "running_at": instance.running_at,
        "ending_at": instance.ending_at,
        "notice_at": instance.notice_at,
        "reclaimed_at": instance.reclaimed_at,
        "fleet_id": instance.fleet_id,
    }


def _bill(double: Ec2Double, _: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON
    lines = double.bill()
    tags = {instance.instance_id: instance.tags for instance in double.instances()}
    priced = [line.usd for line in lines if line.usd is not None]
    return {
        "usd": sum(priced, Decimal(0)) if len(priced) == len(lines) else None,
        "instances": [{**asdict(line), "lease": tags[line.instance_id].get(LEASE_TAG)} for line in lines],
    }


def _counters(double: Ec2Double, _: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON
    return dict(double.counters)


def _faults(double: Ec2Double, _: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON
    return {
        "applied": [rule.model_dump(mode="json") for rule in double.faults.applied],
        "forbidden": sorted(double.faults.forbidden),
    }


class _AskedFaults(Edge):
    """What ``POST faults`` takes."""

    rules: tuple[Fault, ...] = ()
    forbidden: tuple[str, ...] = ()


def _add_faults(double: Ec2Double, document: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON
    # All or nothing: what is wrong anywhere in it leaves the rules as they were.
    asked = _AskedFaults.model_validate(document)
    for rule in asked.rules:
        double.faults.add(**rule.model_dump())
    double.faults.forbidden.update(asked.forbidden)
    return _faults(double, {})


def _clear_faults(double: Ec2Double, _: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON
    double.faults.clear()
    return _faults(double, {})


def _interrupt(double: Ec2Double, document: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON
    notice_s = document.get("notice_s")
    chosen = [instance for instance in _chosen(double, document) if instance.purchase == "spot"]
    if not chosen:
        raise _Refused(409, "it is not a spot instance: EC2 takes none but those away")
    for instance in chosen:
        double.interrupt(instance.instance_id, None if notice_s is None else float(notice_s))
    return {"interrupted": [instance.instance_id for instance in chosen]}


def _rebalance(double: Ec2Double, document: Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON
    chosen = _chosen(double, document)
    for instance in chosen:
        double.recommend_rebalance(instance.instance_id)
    return {"advised": [instance.instance_id for instance in chosen]}


def _chosen(double: Ec2Double, document: Mapping[str, Any]) -> list[Instance]:
    wanted, lease = document.get("instance"), document.get("lease")
    if not (wanted or lease):
        raise _Refused(400, "name an 'instance' or a 'lease'")
    chosen = [
        instance
        for instance in double.instances()
        if instance.is_live and (instance.instance_id == wanted or (lease and instance.tags.get(LEASE_TAG) == lease))
    ]
    if not chosen:
        raise _Refused(404, f"no instance of {wanted or lease} is pending or running")
    return chosen


_ROUTES: Mapping[tuple[str, str], Callable[[Ec2Double, Mapping[str, Any]], Any]] = {
    ("GET", "health"): _health,
    ("GET", "instances"): _instances,
    ("GET", "bill"): _bill,
    ("GET", "counters"): _counters,
    ("GET", "faults"): _faults,
    ("POST", "faults"): _add_faults,
    ("DELETE", "faults"): _clear_faults,
    ("POST", "interrupt"): _interrupt,
    ("POST", "rebalance"): _rebalance,
}
