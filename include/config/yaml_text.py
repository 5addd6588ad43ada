"""Text of a workload file to plain values, within bounds: what YAML allows beyond that is refused with its line."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any

import yaml

LONGEST_TEXT_BYTES = 256 * 1024
_DEEPEST = 32
_MOST_NODES = 10_000
_MOST_ALIASES = 100
_LONGEST_NUMBER = 40
_LARGEST_INT = 2**63 - 1
_PLAIN_TAGS = frozenset(
    f"tag:yaml.org,2002:{kind}"
    for kind in ("null", "bool", "int", "float", "str", "timestamp", "seq", "map", "merge", "value")
)


def _refuse(what: str, node: Any) -> yaml.MarkedYAMLError:  # noqa: ANN401 - a node or an event, both with a mark
    return yaml.MarkedYAMLError(problem=what, problem_mark=node.start_mark)


class _BoundedLoader(yaml.SafeLoader):
    """A safe loader that refuses repeated keys and whatever grows beyond what an order of one person needs."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._depth = 0
        self._nodes = 0
        self._aliases = 0
        self._sizes: dict[int, int] = {}  # node -> nodes below it, aliases written out

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Compose one node; called for every node and alias of the file."""
        event = self.peek_event()  # type: ignore[no-untyped-call]  # the stubs give it no types
        if isinstance(event, yaml.AliasEvent):
            self._aliases += 1
            if self._aliases > _MOST_ALIASES:
                raise _refuse(f"more than {_MOST_ALIASES} aliases", event)
        self._nodes += 1
        if self._nodes > _MOST_NODES:
            raise _refuse(f"more than {_MOST_NODES} values", event)
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _refuse(f"nested deeper than {_DEEPEST} levels", event)
        node = super().compose_node(parent, index)
        self._depth -= 1
        if isinstance(event, yaml.AliasEvent) and isinstance(node, yaml.CollectionNode) and id(node) not in self._sizes:
            raise _refuse("an alias inside the value that it names", event)
        if node is not None:
            self._measure(node)
        return node

    def _measure(self, node: yaml.Node) -> None:
        if node.tag not in _PLAIN_TAGS:
            raise _refuse(f"tag {node.tag!r} is not allowed", node)
        children: list[yaml.Node] = []
        if isinstance(node, yaml.MappingNode):
            children = [part for pair in node.value for part in pair]
        elif isinstance(node, yaml.SequenceNode):
            children = node.value
        self._sizes[id(node)] = size = 1 + sum(self._sizes[id(child)] for child in children)
        if size > _MOST_NODES:
            raise _refuse(f"more than {_MOST_NODES} values, with aliases written out", node)

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:  # noqa: ANN401 - a name; the stubs say dict
        """Compose a mapping; repeated keys are found here, before merge keys (``<<``) are written out."""
        node = super().compose_mapping_node(anchor)
        seen: set[tuple[str, Hashable]] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if (key.tag, key.value) in seen:
                raise _refuse(f"key {key.value[:_LONGEST_NUMBER]!r} stands twice in one mapping", key)
            seen.add((key.tag, key.value))
        return node

    def construct_bounded_int(self, node: yaml.ScalarNode) -> int:
        """An integer of at most 64 bits, which every later reader can hold."""
        value = super().construct_yaml_int(node) if len(node.value) <= _LONGEST_NUMBER else None
        if value is None or abs(value) > _LARGEST_INT:
            raise _refuse("an integer beyond 64 bits", node)
        return int(value)

    def construct_finite_float(self, node: yaml.ScalarNode) -> float:
        """A finite number: infinity and not-a-number pass every comparison or none."""
        value = super().construct_yaml_float(node) if len(node.value) <= _LONGEST_NUMBER else math.inf
        if not math.isfinite(value):
            raise _refuse(f"{node.value[:_LONGEST_NUMBER]!r} is not a finite number", node)
        return float(value)


_BoundedLoader.add_constructor("tag:yaml.org,2002:int", _BoundedLoader.construct_bounded_int)
_BoundedLoader.add_constructor("tag:yaml.org,2002:float", _BoundedLoader.construct_finite_float)


def parse_yaml(text: str) -> Any:  # noqa: ANN401 - raw YAML
    """Plain values of a YAML text.

    Raises:
        ValueError: Not YAML, or YAML beyond the bounds; the message names the line where it is known.
    """
    try:
        return yaml.load(text, Loader=_BoundedLoader)  # noqa: S506 - a SafeLoader with more refusals
    except Exception as error:  # PyYAML lets all kinds out of its constructors, for example KeyError for `!!bool x`
        raise ValueError(" ".join(str(error).split()) or type(error).__name__) from error
