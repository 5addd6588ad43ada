"""CreateTags, DeleteTags and DescribeTags over everything that the double holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stack.ec2_double.account import Account
from stack.ec2_double.answers import page, read_tags, select, shown_tags
from stack.ec2_double.errors import AwsError

_MOST_TAGS = 50
_KINDS = {
    "network-interface": "network-interface",
    "volume": "volume",
    "snapshot": "snapshot",
    "address": "elastic-ip",
    "spot-request": "spot-instances-request",
}


def _tagged(account: Account, region: str) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Id, kind and tags of everything."""
    for instance in account.shown(region):
        yield instance.instance_id, "instance", instance.tags
    for kind, shown_kind in _KINDS.items():
        for thing_id, thing in account.kind(kind).items():
            if thing["Region"] == region:
                yield thing_id, shown_kind, read_tags(thing["Tags"])
    for kind, table in (("fleet", account.fleets), ("launch-template", account.templates)):
        for thing_id, thing in table.items():
            if thing["Region"] == region:
                yield thing_id, kind, read_tags(thing["Tags"])


def _store(account: Account, resource: str, tags: dict[str, str]) -> None:
    if resource in account.instances:
        account.instances[resource].tags = tags
        return
    for table in (account.fleets, account.templates, *(account.kind(kind) for kind in _KINDS)):
        if resource in table:
            table[resource]["Tags"] = shown_tags(tags)


def _change(account: Account, region: str, parameters: Mapping[str, Any], *, delete: bool) -> dict[str, Any]:
    known = {resource: tags for resource, _, tags in _tagged(account, region)}
    for resource in parameters["Resources"]:
        if resource not in known:
            raise AwsError("InvalidID", f"The ID '{resource}' is not valid")
    given = parameters.get("Tags") or []
    if any(tag["Key"].startswith("aws:") for tag in given):
        raise AwsError("InvalidParameterValue", "Tag keys starting with 'aws:' are reserved for internal use")
    for resource in parameters["Resources"]:
        tags = dict(known[resource])
        if delete:
            tags = _without(tags, parameters.get("Tags"))
        else:
            tags |= read_tags(given)
        if len(tags) > _MOST_TAGS:
            raise AwsError("TagLimitExceeded", f"The maximum number of Tags for a resource, {_MOST_TAGS}, is reached")
        _store(account, resource, tags)
    return {}


def _without(tags: dict[str, str], unwanted: list[dict[str, str]] | None) -> dict[str, str]:
    """Tags without those named; without any name all of one's own go, a value that differs keeps its tag."""
    if not unwanted:
        return {key: value for key, value in tags.items() if key.startswith("aws:")}
    dropped = {tag["Key"] for tag in unwanted if "Value" not in tag or tags.get(tag["Key"]) == tag["Value"]}
    return {key: value for key, value in tags.items() if key not in dropped}


def create_tags(account: Account, region: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """CreateTags."""
    return _change(account, region, parameters, delete=False)


def delete_tags(account: Account, region: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """DeleteTags."""
    return _change(account, region, parameters, delete=True)


def describe_tags(account: Account, region: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """DescribeTags."""
    every = [
        {"ResourceId": resource, "ResourceType": kind, "Key": key, "Value": value}
        for resource, kind, tags in _tagged(account, region)
        for key, value in tags.items()
    ]
    readers = {
        "resource-id": lambda tag: tag["ResourceId"],
        "resource-type": lambda tag: tag["ResourceType"],
        "key": lambda tag: tag["Key"],
        "value": lambda tag: tag["Value"],
    }
    chosen = select(every, parameters.get("Filters"), readers=readers, tags=lambda tag: {tag["Key"]: tag["Value"]})
    shown, token = page(chosen, parameters)
    return {"Tags": shown, "NextToken": token}
