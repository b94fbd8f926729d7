"""topograph's cluster models: `switches` (each with the switches under it) and `blocks` (a leaf switch and its nodes).

A block's annotation `accelerator.../domain` is its NVLink domain: a level `nvlink` under the leaves; or over them,
where one NVLink domain has several leaves. A block without one has no domain at that level.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gsched.errors import BadConfig
from gsched.topology.tree import check_nested, from_tree, refuse
from gsched.topology.yaml_text import Found, read_yaml
from gsched.values.ids import NodeName
from gsched.values.topology import Topology

NVLINK: Final = "nvlink"
_SWITCH_KEYS: Final = ("labels", "annotations", "switches", "nodes", "metadata", "name")
_BLOCK_KEYS: Final = ("switch", "nodes", "labels", "annotations", "name", "metadata")


def read_topograph(text: str, source: str) -> Topology:
    """Raises BadConfig with file and line."""
    tables = read_yaml(text, source)
    leaves: dict[str, list[NodeName]] = {}
    islands: dict[NodeName, str] = {}
    if "blocks" not in tables:
        raise BadConfig(f"{source}: expected `blocks`, each with a switch and its nodes, found {', '.join(tables)}")
    for block in tables["blocks"].items("a list of blocks"):
        keys = block.mapping("a block: a mapping with switch and nodes", _BLOCK_KEYS)
        for key in ("switch", "nodes"):
            if key not in keys:
                refuse(source, block.line, f"a block with {key}", f"one with {', '.join(keys)}")
        nodes = keys["nodes"].names("a list of nodes")
        leaves.setdefault(keys["switch"].text("the name of a leaf switch"), []).extend(nodes)
        if island := _island(keys):
            islands |= dict.fromkeys(nodes, island)
    above = _above(tables["switches"]) if "switches" in tables else {}
    for leaf in leaves:
        if leaf in above.values():
            raise BadConfig(f"{source}: expected a leaf with nodes only, found {leaf}, which has switches below it too")
    return with_islands(from_tree(leaves, above, source), islands)


def _island(block: dict[str, Found]) -> str:
    for place in ("annotations", "labels"):
        if place in block:
            for key, value in block[place].mapping("a mapping of texts").items():
                if key.startswith("accelerator.") or key.endswith("/accelerator"):
                    return value.text("the name of an NVLink domain")
    return ""


def _above(switches: Found) -> dict[str, str]:
    above: dict[str, str] = {}
    for name, switch in switches.mapping("a mapping of switches").items():
        if not switch.value:
            continue
        below = switch.mapping("a switch: a mapping with switches", _SWITCH_KEYS).get("switches")
        for item in below.items("a list of switches") if below is not None and below.value else ():
            child = item.text("the name of a switch")
            if above.setdefault(child, name) != name:
                refuse(item.source, item.line, "each switch under one other", f"{child}, which is under {above[child]}")
    return above


def with_islands(topology: Topology, islands: dict[NodeName, str]) -> Topology:
    """Add a level `nvlink` where it nests: lowest, or over the leaves. Raises BadConfig if it nests at neither."""
    if not islands:
        return topology
    refusals: list[BadConfig] = []
    for at in range(min(2, len(topology.levels) + 1)):
        made = Topology(
            levels=_with(topology.levels, at, NVLINK),
            paths={node: _with(path, at, islands.get(node, "")) for node, path in topology.paths.items()},
            switches=topology.switches,
            problems=topology.problems,
            source=topology.source,
        )
        try:
            check_nested(made)
            return made
        except BadConfig as error:
            refusals.append(error)
    raise refusals[0]


def _with(path: Sequence[str], at: int, name: str) -> tuple[str, ...]:
    return (*path[:at], name, *path[at:])
