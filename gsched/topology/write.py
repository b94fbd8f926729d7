"""A topology as people and programs read it: a table, or JSON of plain values. (`own_yaml.py` writes our YAML.)"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gsched.spec.nodelists import fold, natural
from gsched.values.topology import Problem, Topology


def topology_table(topology: Topology) -> Iterator[str]:
    """The domains as a tree, from the highest level down, with counts and nodes."""
    yield f"{len(topology.paths)} nodes, {len(topology.levels)} levels" + (
        f": {_counts(topology)}" if topology.levels else ""
    )
    rows = list(_rows(topology))
    if not rows:
        return
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for level, name, count, nodes in [("LEVEL", "DOMAIN", "NODES", "NODELIST"), *rows]:
        row = f"{level:<{max(5, widths[0])}}  {name:<{max(6, widths[1])}}  {count:>{max(5, widths[2])}}  {nodes}"
        yield row.rstrip()


def _counts(topology: Topology) -> str:
    """From the lowest level up."""
    parts = []
    for level, name in enumerate(topology.levels):
        members = topology.members(level)
        sizes = [len(nodes) for nodes in members.values()]
        most = f"{min(sizes)} to {max(sizes)}" if sizes and min(sizes) != max(sizes) else str(max(sizes, default=0))
        parts.append(f"{len(members)} {name} ({most} nodes)")
    return ", ".join(parts)


def _rows(topology: Topology) -> Iterator[tuple[str, str, str, str]]:
    """Each domain once, those of a domain indented under it."""
    top = len(topology.levels) - 1
    order = sorted(topology.paths, key=lambda node: [natural(name) for name in reversed(topology.paths[node])])
    shown: set[tuple[int, str]] = set()
    members = [topology.members(level) for level in range(len(topology.levels))]
    for node in order:
        path = topology.paths[node]
        for level in range(top, -1, -1):
            name = path[level]
            if name and (level, name) not in shown:
                shown.add((level, name))
                nodes = members[level][name]
                listed = fold(nodes) if level == 0 or not any(topology.paths[nodes[0]][:level]) else ""
                yield topology.levels[level], "  " * (top - level) + name, str(len(nodes)), listed


def topology_json(topology: Topology, problems: Sequence[Problem]) -> dict[str, Any]:
    """Plain values for programs. Any: a tree of JSON values."""
    return {
        "source": topology.source,
        "levels": list(topology.levels),
        "domains": [
            {
                "level": level_name,
                "name": name,
                "in": next(filter(None, topology.paths[nodes[0]][level + 1 :]), None),
                "nodes": list(nodes),
                "switches": list(topology.switches.get(name, ())),
            }
            for level, level_name in enumerate(topology.levels)
            for name, nodes in topology.members(level).items()
        ],
        "problems": [
            {"kind": p.kind.value, "text": p.text, "nodes": list(p.nodes), "domains": list(p.domains)} for p in problems
        ],
    }
