"""Slurm's topology.conf, of the tree plugin (SwitchName) and the block plugin (BlockName).

Levels of a tree are called leaf, spine, core; those of blocks are `block` and, for each further size of BlockSizes,
`blocksN` with N nodes: as many blocks in the order of the file, as Slurm joins them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final

from msgspec import Struct

from gsched.errors import BadConfig
from gsched.topology.tree import from_tree, names_at, refuse
from gsched.values.ids import NodeName
from gsched.values.topology import Problem, ProblemKind, Topology

_PAIR: Final = re.compile(r"([A-Za-z]+)=(\S*)\Z")
_FIRST: Final = ("switchname", "blockname", "blocksizes")
_KEYS: Final = {
    "switchname": ("nodes", "switches", "linkspeed"),
    "blockname": ("nodes",),
    "blocksizes": (),
}


class _Line(Struct, frozen=True):
    number: int
    kind: str  # its first key, in small letters
    value: str
    keys: dict[str, str]  # the others


def looks_like_slurm(text: str) -> bool:
    return re.search(r"(?mi)^\s*(SwitchName|BlockName)=", text) is not None


def read_slurm(text: str, source: str) -> Topology:
    """Raises BadConfig with file and line."""
    lines = list(_lines(text, source))
    switches = [line for line in lines if line.kind == "switchname"]
    blocks = [line for line in lines if line.kind == "blockname"]
    if switches and blocks:
        refuse(source, blocks[0].number, "switches only, as above", "a block: Slurm uses one plugin at a time")
    if not switches and not blocks:
        raise BadConfig(f"{source}: expected lines of SwitchName= or BlockName=, found none")
    _unique(switches or blocks, source)
    return _tree(switches, source) if switches else _blocks(blocks, lines, source)


def _lines(text: str, source: str) -> Iterator[_Line]:
    """The lines that say something, those that end in a backslash joined with the next."""
    joined, first = "", 0
    for number, raw in enumerate(text.splitlines(), start=1):
        first = first or number
        line = raw.split("#", 1)[0].rstrip()
        if line.endswith("\\"):
            joined += line[:-1] + " "
            continue
        joined += line
        if joined.strip():
            yield _line(joined, first, source)
        joined, first = "", 0
    if joined.strip():
        yield _line(joined, first, source)


def _line(text: str, number: int, source: str) -> _Line:
    pairs: list[tuple[str, str]] = []
    for word in text.split():
        found = _PAIR.match(word)
        if not found:
            refuse(source, number, "Key=Value", repr(word))
        pairs.append((found[1].lower(), found[2]))
    kind, value = pairs[0]
    if kind not in _FIRST:
        refuse(source, number, "SwitchName=, BlockName= or BlockSizes= first", f"{text.split()[0]!r}")
    keys = dict(pairs[1:])
    for key in keys:
        if key not in _KEYS[kind]:
            refuse(source, number, f"{' or '.join(_KEYS[kind]) or 'nothing'} after {kind}", f"{key!r}")
    if not value:
        refuse(source, number, f"a value of {kind}", "none")
    return _Line(number, kind, value, keys)


def _unique(lines: Iterable[_Line], source: str) -> None:
    seen: dict[str, int] = {}
    for line in lines:
        if line.value in seen:
            refuse(source, line.number, "a new name", f"{line.value} again (first on line {seen[line.value]})")
        seen[line.value] = line.number


def _tree(lines: list[_Line], source: str) -> Topology:
    known = {line.value for line in lines}
    leaves: dict[str, tuple[NodeName, ...]] = {}
    above: dict[str, str] = {}
    for line in lines:
        below = line.keys.get("switches", "")
        nodes = line.keys.get("nodes", "")
        if bool(below) == bool(nodes):
            refuse(source, line.number, "either Nodes= (a leaf) or Switches=", "both" if below else "neither")
        if nodes:
            leaves[line.value] = names_at(source, line.number, nodes)
        for child in names_at(source, line.number, below) if below else ():
            if child not in known:
                refuse(source, line.number, "switches that have a SwitchName= line", child)
            if above.setdefault(child, line.value) != line.value:
                refuse(
                    source, line.number, "each switch under one other", f"{child}, which is under {above[child]} too"
                )
    _lead_down(lines, leaves, above, source)
    return from_tree(leaves, above, source)


def _lead_down(
    lines: Iterable[_Line], leaves: dict[str, tuple[NodeName, ...]], above: dict[str, str], source: str
) -> None:
    """Every switch leads down to a leaf: what does not is a circle."""
    reached = set(leaves)
    for leaf in leaves:
        switch = above.get(leaf)
        while switch is not None and switch not in reached:
            reached.add(switch)
            switch = above.get(switch)
    for line in lines:
        if line.value not in reached:
            refuse(source, line.number, "a tree with leaves below", f"{line.value}, below which there is only itself")


def _blocks(blocks: list[_Line], lines: list[_Line], source: str) -> Topology:
    sizes = _sizes(lines, source)
    joined = [size // sizes[0] for size in sizes]  # blocks in a domain of each level
    paths: dict[NodeName, tuple[str, ...]] = {}
    problems: list[Problem] = []
    for index, line in enumerate(blocks):
        if "nodes" not in line.keys:
            refuse(source, line.number, "Nodes=", "none")
        firsts = [blocks[index - index % count].value for count in joined]
        path = tuple(first if n == 0 else f"{first}.x{joined[n]}" for n, first in enumerate(firsts))
        for node in names_at(source, line.number, line.keys["nodes"]):
            if node in paths:
                text = f"node {node} is in {paths[node][0]} and {line.value}: taken to be in {paths[node][0]}"
                problems.append(Problem(ProblemKind.TWO_PLACES, text, (node,), (paths[node][0], line.value)))
            else:
                paths[node] = path
    levels = ("block", *(f"blocks{size}" for size in sizes[1:]))
    return Topology(levels=levels, paths=paths, problems=tuple(problems), source=source)


def _sizes(lines: Iterable[_Line], source: str) -> tuple[int, ...]:
    """BlockSizes: each a power of two times the first."""
    found = [line for line in lines if line.kind == "blocksizes"]
    if not found:
        return (1,)
    line, words = found[-1], found[-1].value.split(",")
    sizes = tuple(int(word) for word in words if word.isascii() and word.isdecimal())
    right = len(sizes) == len(words) and all(size > 0 for size in sizes)
    for lower, size in pairwise(sizes):
        times, rest = divmod(size, lower) if lower else (0, 1)
        right = right and not rest and times > 1 and times & (times - 1) == 0
    if not right:
        refuse(source, line.number, "sizes that are each a power of two times the one before, as 18,36,72", line.value)
    return sizes
