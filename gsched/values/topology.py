"""Where nodes hang: the named levels of a cluster and each node's path of domains; what was found odd in it."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from gsched.values.ids import NodeName


class ProblemKind(StrEnum):
    ONLY_IN_FILE = "only-in-file"  # the topology names a node that nobody knows
    NOT_IN_FILE = "not-in-file"  # a known node hangs nowhere
    TWO_PLACES = "two-places"  # a node on two leaves, or two groups of them
    CONTRADICTED = "contradicted"  # what agents report is otherwise
    FEW_LINKS = "few-links"  # a node is on fewer of its leaves than its neighbours
    NO_NAME = "no-name"  # adapters that do not say whose they are
    NOT_A_LEAF = "not-a-leaf"  # a node on a switch above the leaves


class Problem(Struct, frozen=True):
    """One mismatch, as data and in words."""

    kind: ProblemKind
    text: str
    nodes: tuple[NodeName, ...] = ()
    domains: tuple[str, ...] = ()


class Topology(Struct, frozen=True, kw_only=True):
    """A forest of domains. Level 0 is the lowest; two nodes of one domain are of one domain at every higher level."""

    levels: tuple[str, ...] = ()  # names, from the lowest up
    paths: dict[NodeName, tuple[str, ...]] = {}  # one domain a level; "" = in none at this level
    switches: dict[str, tuple[str, ...]] = {}  # a domain that stands for several switches -> their names
    problems: tuple[Problem, ...] = ()  # found while reading
    source: str = ""  # the file

    def path_of(self, node: NodeName) -> tuple[str, ...]:
        """The domains that the node is in, from the lowest up; () for a node that is not in the topology."""
        return tuple(name for name in self.paths.get(node, ()) if name)

    def domains_of(self, node: NodeName) -> tuple[str, ...]:
        """One domain for every level. Where the node is in none it is alone with what hangs there below: the domain
        is called as the one below it, at the lowest level as the node."""
        filled: list[str] = []
        below: str = node
        for name in self.paths.get(node, ("",) * len(self.levels)):
            below = name or below
            filled.append(below)
        return tuple(filled)

    def members(self, level: int) -> dict[str, tuple[NodeName, ...]]:
        """Each domain of a level with its nodes, both in the order of `paths`."""
        found: dict[str, list[NodeName]] = {}
        for node, path in self.paths.items():
            if path[level]:
                found.setdefault(path[level], []).append(node)
        return {name: tuple(nodes) for name, nodes in found.items()}
