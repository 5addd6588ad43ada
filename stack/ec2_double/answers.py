"""What describing actions share: filters, tags, pages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import translate
from functools import cache
from typing import Any, TypeVar

from stack.ec2_double.errors import AwsError

Thing = TypeVar("Thing")
Reader = Callable[[Thing], str | None]


def tags_of(parameters: Mapping[str, Any], kind: str) -> dict[str, str]:
    """Tags that a request gives to resources of one kind."""
    found: dict[str, str] = {}
    for specification in parameters.get("TagSpecifications") or ():
        if specification.get("ResourceType") == kind:
            found |= {tag["Key"]: tag.get("Value", "") for tag in specification.get("Tags") or ()}
    return found


def shown_tags(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """Tags as boto3 shows them."""
    return [{"Key": key, "Value": value} for key, value in sorted(tags.items())]


def read_tags(shown: Iterable[Mapping[str, str]] | None) -> dict[str, str]:
    """Tags by key."""
    return {tag["Key"]: tag.get("Value", "") for tag in shown or ()}


@cache
def _pattern(text: str) -> re.Pattern[str]:
    # Of the patterns of a shell EC2 knows * and ?; a bracket means itself.
    return re.compile(translate(text.replace("[", "[[]")))


def select(
    things: Iterable[Thing],
    filters: Sequence[Mapping[str, Any]] | None,
    *,
    readers: Mapping[str, Reader[Thing]],
    tags: Callable[[Thing], Mapping[str, str]],
) -> list[Thing]:
    """Things that fit all filters; a filter fits when one of its values does.

    Args:
        things: Candidates.
        filters: ``Filters`` of the request.
        readers: What to compare, by name of the filter.
        tags: Tags of a thing.

    Raises:
        AwsError: There is no such filter.
    """
    chosen = list(things)
    for wanted in filters or ():
        reader = _reader(wanted["Name"], readers, tags)
        patterns = [_pattern(value) for value in wanted.get("Values") or ()]
        chosen = [
            thing for thing in chosen if any(pattern.match(text) for text in reader(thing) for pattern in patterns)
        ]
    return chosen


def _reader(
    name: str, readers: Mapping[str, Reader[Thing]], tags: Callable[[Thing], Mapping[str, str]]
) -> Callable[[Thing], Iterable[str]]:
    if name.startswith("tag:"):
        key = name.removeprefix("tag:")
        return lambda thing: [tags(thing)[key]] if key in tags(thing) else []
    if name == "tag-key":
        return tags
    if name not in readers:
        raise AwsError("InvalidParameterValue", f"The filter '{name}' is invalid")
    read = readers[name]
    return lambda thing: [text] if (text := read(thing)) is not None else []


def page(things: Sequence[Thing], parameters: Mapping[str, Any]) -> tuple[Sequence[Thing], str | None]:
    """The page that a request asks for, and the token of the next one, None on the last page.

    Raises:
        AwsError: The token is none that was given out.
    """
    token = parameters.get("NextToken") or "0"
    if not token.isdecimal():
        raise AwsError("InvalidNextToken", f"The token '{token}' is invalid")
    begin, size = int(token), parameters.get("MaxResults")
    if not size or begin + size >= len(things):
        return things[begin:], None
    return things[begin : begin + size], str(begin + size)
