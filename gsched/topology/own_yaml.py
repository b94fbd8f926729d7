"""Our own form, YAML: any number of levels, called as you like.

    levels: [nvlink, leaf, pod]          # from the lowest up
    domains:
      nvlink:
        rack1: "n[1-18]"                 # at the lowest level: its nodes
        rack2: "n[19-36]"
      leaf:
        leaf1: "rack[1-2]"               # above: domains of the level below (or of a lower one)
        leaf2: {nodes: "x[1-8]"}         # or nodes that are in no domain below
        leaf3: {domains: rack3, nodes: "x[9-16]", switches: [sw3, sw4]}    # switches: for people only
      pod:
        pod1: "leaf[1-3]"

A list of names may be one text or a list of texts. Every domain is in one domain of the next level at most.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from gsched.errors import BadConfig
from gsched.spec.nodelists import fold
from gsched.topology.tree import first_name, refuse
from gsched.topology.yaml_text import Found, read_yaml
from gsched.values.ids import NodeName
from gsched.values.topology import Topology

NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}", re.ASCII)
_KEYS: Final = ("nodes", "domains", "switches")


def read_own(text: str, source: str) -> Topology:
    """Raises BadConfig with file and line."""
    tables = read_yaml(text, source)
    for key, found in tables.items():
        if key not in ("levels", "domains"):
            refuse(source, found.line, "levels and domains", f"the key {key}")
    for key in ("levels", "domains"):
        if key not in tables:
            raise BadConfig(f"{source}: expected {key}, found only {', '.join(tables)}")
    levels = _levels(tables["levels"])
    by_level = tables["domains"].mapping("a mapping of levels", levels)
    reader = _Reader(levels, source)
    for level, name in enumerate(levels):
        if name not in by_level:
            refuse(source, tables["domains"].line, f"domains of level {name}", f"those of {', '.join(by_level)} only")
        reader.take_level(level, by_level[name])
    return Topology(levels=levels, paths=reader.paths(), switches=reader.switches, source=source)


def _levels(found: Found) -> tuple[str, ...]:
    names: list[str] = []
    for item in found.items("a list of names of levels"):
        name = item.text("the name of a level")
        if not NAME.fullmatch(name):
            refuse(item.source, item.line, "a name of letters, digits, dot, dash and underscore", repr(name))
        if name in names:
            refuse(item.source, item.line, "each level once", f"{name} again")
        names.append(name)
    if not names:
        refuse(found.source, found.line, "one level or more", "none")
    return tuple(names)


class _Reader:
    """Takes the levels from the lowest up."""

    def __init__(self, levels: tuple[str, ...], source: str) -> None:
        self.switches: dict[str, tuple[str, ...]] = {}
        self._levels, self._source = levels, source
        self._domains: list[dict[str, int]] = []  # a level's domains and their lines
        self._above: dict[tuple[int, str], tuple[int, str]] = {}  # (level, domain) -> the one that it is in
        self._on: dict[NodeName, tuple[int, str]] = {}  # where the node is named: level, domain

    def take_level(self, level: int, found: Found) -> None:
        self._domains.append({})
        for name, domain in found.mapping(f"a mapping of domains of level {self._levels[level]}").items():
            if not NAME.fullmatch(name):
                refuse(self._source, domain.line, "a name of letters, digits, dot, dash and underscore", repr(name))
            self._domains[level][name] = domain.line
            self._take(level, name, domain)

    def _take(self, level: int, name: str, domain: Found) -> None:
        short = "domains" if level else "nodes"
        if isinstance(domain.value, dict):
            keys = domain.mapping("", _KEYS)
        else:
            keys = {short: domain}
        if "domains" in keys and not level:
            refuse(self._source, domain.line, "nodes at the lowest level", "domains")
        if not ("domains" in keys or "nodes" in keys):
            refuse(self._source, domain.line, f"{short} of {name}", "none")
        if "nodes" in keys:
            self._take_nodes(level, name, keys["nodes"])
        if "domains" in keys:
            self._take_domains(level, name, keys["domains"])
        if "switches" in keys:
            self.switches[name] = tuple(map(str, keys["switches"].names("a list of switches")))

    def _take_nodes(self, level: int, name: str, found: Found) -> None:
        for node in found.names('a list of nodes, as "n[1-4]"'):
            if node in self._on:
                refuse(self._source, found.line, "each node once", f"{node}, which is in {self._on[node][1]} too")
            self._on[node] = level, name

    def _take_domains(self, level: int, name: str, found: Found) -> None:
        for child in found.names(f'a list of domains of level {self._levels[level - 1]}, as "{name}[1-4]"'):
            at = next((lower for lower in reversed(range(level)) if child in self._domains[lower]), None)
            if at is None:
                refuse(self._source, found.line, f"domains of level {' or '.join(self._levels[:level])}", child)
            over = self._above.setdefault((at, child), (level, name))
            if over != (level, name):
                refuse(self._source, found.line, "each domain in one other", f"{child}, which is in {over[1]} too")

    def paths(self) -> dict[NodeName, tuple[str, ...]]:
        """In the order in which nodes are named."""
        made: dict[NodeName, tuple[str, ...]] = {}
        for node, on in self._on.items():
            path = [""] * len(self._levels)
            at: tuple[int, str] | None = on
            while at is not None:
                path[at[0]] = at[1]
                at = self._above.get(at)
            made[node] = tuple(path)
        return made


def own_yaml(topology: Topology) -> str:
    """The same topology in our form: `read_own` gives it back, less its problems."""
    lines = [f"levels: [{', '.join(topology.levels)}]", "domains:"]
    for level, level_name in enumerate(topology.levels):
        lines.append(f"  {level_name}:")
        for name, nodes in topology.members(level).items():
            direct = [node for node in nodes if not any(topology.paths[node][:level])]
            below = dict.fromkeys(first_name(reversed(topology.paths[node][:level])) for node in nodes)
            below.pop("", None)
            parts = {"domains": fold(below), "nodes": fold(direct), "switches": fold(topology.switches.get(name, ()))}
            lines.append(f"    {_key(name)}: {_entry({k: v for k, v in parts.items() if v}, level)}")
    return "\n".join(lines) + "\n"


def _entry(parts: Mapping[str, str], level: int) -> str:
    if tuple(parts) == (("domains",) if level else ("nodes",)):
        return f'"{next(iter(parts.values()))}"'
    return "{" + ", ".join(f'{key}: "{value}"' for key, value in parts.items()) + "}"


def _key(name: str) -> str:
    """Digits alone would be a number to other readers of YAML."""
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]*", name) and name.lower() not in _WORDS else f'"{name}"'


_WORDS: Final[Iterable[str]] = frozenset({"yes", "no", "on", "off", "true", "false", "null", "y", "n"})
