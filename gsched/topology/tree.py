"""A forest of switches -> levels. A switch's level is the longest way down from it to a leaf."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NoReturn

from gsched.errors import BadConfig, BadRequest
from gsched.spec.nodelists import expand
from gsched.values.ids import NodeName
from gsched.values.topology import Problem, ProblemKind, Topology

LEVEL_NAMES: Final = ("leaf", "spine", "core")


def level_names(count: int) -> tuple[str, ...]:
    """What levels are called where the format has no names for them: leaf, spine, core, level4, ..."""
    return (*LEVEL_NAMES[:count], *(f"level{number}" for number in range(len(LEVEL_NAMES) + 1, count + 1)))


def refuse(source: str, line: int, expected: str, found: str) -> NoReturn:
    """The one form of every reader's error."""
    raise BadConfig(f"{source}: line {line}: expected {expected}, found {found}")


def names_at(source: str, line: int, text: str) -> tuple[NodeName, ...]:
    """Unfold a list that stands on a line. Raises BadConfig."""
    try:
        return expand(text)
    except BadRequest as error:
        raise BadConfig(f"{source}: line {line}: {error.text}") from None


def from_tree(leaves: Mapping[str, Sequence[NodeName]], above: Mapping[str, str], source: str = "") -> Topology:
    """Fold a forest.

    leaves: each leaf switch with its nodes. above: each switch with the one it hangs on. A node on two leaves stays
    where it was named first, and is a problem. Raises BadConfig for a circle.
    """
    heights = _heights(leaves, above, source)
    depth = max(heights.values(), default=-1) + 1
    paths: dict[NodeName, tuple[str, ...]] = {}
    twice: dict[NodeName, list[str]] = {}
    for leaf, nodes in leaves.items():
        path = [""] * depth
        switch: str | None = leaf
        while switch is not None:
            path[heights[switch]] = switch
            switch = above.get(switch)
        for node in nodes:
            if node in paths:
                twice.setdefault(node, [first_name(paths[node])]).append(leaf)
            else:
                paths[node] = tuple(path)
    return Topology(levels=level_names(depth), paths=paths, problems=tuple(_on_two(twice)), source=source)


def first_name(path: Iterable[str]) -> str:
    """The lowest domain of a path; "" if there is none."""
    return next((name for name in path if name), "")


def _on_two(twice: Mapping[NodeName, Sequence[str]]) -> Iterable[Problem]:
    for node, on in twice.items():
        text = f"node {node} is on {' and '.join(on)}: taken to be on {on[0]}, where it is named first"
        yield Problem(ProblemKind.TWO_PLACES, text, (node,), tuple(dict.fromkeys(on)))


def _heights(leaves: Iterable[str], above: Mapping[str, str], source: str) -> dict[str, int]:
    """Each switch that stands over a leaf, with its level."""
    heights: dict[str, int] = {}
    for leaf in leaves:
        way = [leaf]
        heights.setdefault(leaf, 0)
        while (parent := above.get(way[-1])) is not None:
            if parent in way:
                circle = [*way[way.index(parent) :], parent]
                raise BadConfig(f"{source}: expected a tree of switches, found a circle: {' < '.join(circle)}")
            heights[parent] = max(heights.get(parent, 0), len(way))
            way.append(parent)
    return heights


def check_nested(topology: Topology) -> None:
    """Each domain is within one domain of the next level that has any. Raises BadConfig for the first that is not."""
    for level in range(len(topology.levels) - 1):
        inside: dict[str, tuple[str, NodeName]] = {}
        for node, path in topology.paths.items():
            over = first_name(path[level + 1 :])
            if not path[level]:
                continue
            known, first = inside.setdefault(path[level], (over, node))
            if known != over:
                raise BadConfig(
                    f"{topology.source}: expected {topology.levels[level]} {path[level]} within one domain of the "
                    f"level above, found {first} under {known or 'nothing'} and {node} under {over or 'nothing'}"
                )


def renamed(topology: Topology, levels: Sequence[str], where: str) -> Topology:
    """The same with other names of its levels. Raises BadConfig if their number is another."""
    if not levels:
        return topology
    if len(levels) != len(topology.levels):
        raise BadConfig(
            f"{where}: expected {len(topology.levels)} names, from the lowest level up (now "
            f"{_listed(topology.levels)}), found {len(levels)}: {_listed(levels)}"
        )
    return Topology(
        levels=tuple(levels),
        paths=topology.paths,
        switches=topology.switches,
        problems=topology.problems,
        source=topology.source,
    )


def _listed(levels: Sequence[str]) -> str:
    return ", ".join(levels) or "none"
