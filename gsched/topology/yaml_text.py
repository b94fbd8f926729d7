"""YAML with line numbers: mappings, lists and texts, nothing else. PyYAML is loaded on the first call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from gsched.errors import BadConfig
from gsched.topology.tree import names_at, refuse
from gsched.values.ids import NodeName

if TYPE_CHECKING:
    from yaml.nodes import Node

_DEEPEST: Final = 32


class Found(Struct, frozen=True):
    """A value and where it stands. A scalar is the text as written: a node called 0101 keeps its zero."""

    line: int
    source: str
    value: str | list[Found] | dict[str, Found]

    def text(self, what: str) -> str:
        if not isinstance(self.value, str) or not self.value:
            refuse(self.source, self.line, what, self.kind())
        return self.value

    def mapping(self, what: str, known: Iterable[str] = ()) -> dict[str, Found]:
        """As a mapping; with `known`, of no other keys."""
        if not isinstance(self.value, dict):
            refuse(self.source, self.line, what, self.kind())
        for key, value in self.value.items():
            if known and key not in known:
                refuse(self.source, value.line, f"one of {', '.join(known)}", f"the key {key}")
        return self.value

    def items(self, what: str) -> list[Found]:
        if not isinstance(self.value, list):
            refuse(self.source, self.line, what, self.kind())
        return self.value

    def names(self, what: str) -> tuple[NodeName, ...]:
        """A node list, or several in a list."""
        if isinstance(self.value, list):
            return tuple(name for item in self.value for name in names_at(self.source, item.line, item.text(what)))
        return names_at(self.source, self.line, self.text(what))

    def kind(self) -> str:
        if isinstance(self.value, str):
            return f"the text {self.value!r}" if self.value else "nothing"
        return "a list" if isinstance(self.value, list) else "a mapping"


def read_yaml(text: str, source: str) -> dict[str, Found]:
    """The document, a mapping. Raises BadConfig with file and line."""
    import yaml

    try:
        node = yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        refuse(source, mark.line + 1 if mark else 1, "YAML", f"an error: {error.problem}")
    except yaml.YAMLError as error:
        raise BadConfig(f"{source}: expected YAML, found {' '.join(str(error).split())}") from None
    if node is None:
        raise BadConfig(f"{source}: expected a YAML mapping, found an empty document")
    return _found(node, source, set(), 0).mapping("a YAML mapping")


def _found(node: Node, source: str, seen: set[int], depth: int) -> Found:
    """Aliases are refused: a small text of them can stand for a huge one."""
    import yaml

    line = node.start_mark.line + 1
    if id(node) in seen or depth > _DEEPEST:
        refuse(source, line, "plain mappings, lists and texts", "an alias" if id(node) in seen else "too deep a nest")
    seen.add(id(node))
    if isinstance(node, yaml.ScalarNode):
        return Found(line, source, "" if node.tag.endswith(":null") else node.value)
    if isinstance(node, yaml.SequenceNode):
        return Found(line, source, [_found(item, source, seen, depth + 1) for item in node.value])
    assert isinstance(node, yaml.MappingNode)
    made: dict[str, Found] = {}
    for key, value in _pairs(node, source):
        if key in made:
            refuse(source, value.start_mark.line + 1, "each key once", f"{key} again (first on line {made[key].line})")
        made[key] = _found(value, source, seen, depth + 1)
    return Found(line, source, made)


def _pairs(node: Node, source: str) -> Iterator[tuple[str, Node]]:
    import yaml

    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            refuse(source, key.start_mark.line + 1, "a text as key", "something else")
        yield key.value, value
