"""The order of nodes in which every switch is one contiguous range, and the ranges."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from gschedd.core.inputs import NodeInput
from gschedd.core.kernels.arrays import Tree

NaturalKey: TypeAlias = list[tuple[int, int, str]]
TopologyKey: TypeAlias = tuple[list[NaturalKey], NaturalKey]


def topology_key(node: NodeInput) -> TopologyKey:
    """From the root switch to the leaf, then by name; n2 comes before n10."""
    return [_natural(name) for name in reversed(node.switches)], _natural(node.name)


def _natural(name: str) -> NaturalKey:
    """Sort key of a name in which runs of digits count as numbers."""
    return [(0, int(part), part) if part.isdecimal() else (1, 0, part) for part in re.split(r"([0-9]+)", name) if part]


def tree_of(ordered: Sequence[tuple[str, ...]]) -> Tree:
    """The domains of each level. ordered: each node's switches, from the leaf up; shorter paths count from the root."""
    size = len(ordered)
    depth = max((len(switches) for switches in ordered), default=0)
    domain = np.zeros((depth + 1, size), dtype=np.int64)
    first = np.full((depth + 1, size + 1), size, dtype=np.int64)
    domains = np.zeros(depth + 1, dtype=np.int64)
    for level in range(depth + 1):
        before: tuple[str, ...] | None = None
        number = -1
        for n, switches in enumerate(ordered):
            path = switches[::-1][: depth - level]
            if path != before:
                number += 1
                first[level, number] = n
                before = path
            domain[level, n] = number
        domains[level] = number + 1
    return Tree(domain, first, domains)
