"""What `ibnetdiscover` prints: switches and adapters, and where each port leads.

Levels are found from the links, never from names of switches:

- A switch with hosts on it is a leaf; but not where it is linked to one with several times as many (a spine that the
  fabric's manager hangs on). Hosts are named by their adapters' descriptions, `HOST mlx5_0` or `HOST HCA-1`; an
  adapter that gives only its card's name is counted, and reported.
- Rails: where hosts are on several leaves, the leaves which they share are folded into one domain of level `leaf`.
  Groups are made from what most hosts have, so a host with a missing link joins its neighbours, and one that is
  on leaves of two groups goes to where it has more links, and is reported.
- A switch n links away from the leaves is of level n. A domain of level n is what is joined by switches up to it. Above
  the first a level that joins nothing more is left out: a leaf without hosts would make one.

A domain of one switch has that switch's name; one of several is named after its first, with `.xN` for their number.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from gsched.errors import BadConfig
from gsched.spec.nodelists import fold, natural
from gsched.topology.tree import level_names, refuse
from gsched.values.ids import NodeName
from gsched.values.topology import Problem, ProblemKind, Topology

_HEAD: Final = re.compile(r'(Switch|Ca|Rt)\s+\d+\s+"([SHR]-[0-9a-fA-F]+)"(?:\s*#\s*"(.*?)")?')
_PORT: Final = re.compile(
    r'\[\d+\](?:\[ext \d+\])?(?:\([0-9a-fA-F]+\))?\s+"([SHR]-[0-9a-fA-F]+)"\[\d+\](?:\[ext \d+\])?(?:\([0-9a-fA-F]+\))?'
)
_OTHER: Final = re.compile(r"(#|\w+=|Chassis|DR path|[Ss]pine|[Ll]ine|\s*\Z)")
_HOST: Final = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.-]{0,252})\s+(mlx\d+_\d+|(?:HCA|HFI|hfi|ib)[-_]?\w+)\Z")
_NO_HOSTS: Final = frozenset({"localhost", "localhost.localdomain"})
_AGGREGATION: Final = "Aggregation Node"  # inside a switch: no host
_MANY_TIMES: Final = 4


class _Fabric(Struct):
    """What the text says."""

    names: dict[str, str]  # switch id -> a short name
    descriptions: dict[str, str]  # adapter id -> as printed
    links: dict[str, Counter[str]]  # switch id -> peers and how many cables


def looks_like_ibnetdiscover(text: str) -> bool:
    return re.search(r'(?m)^Switch\s+\d+\s+"S-', text) is not None


def read_ibnetdiscover(text: str, source: str) -> Topology:
    """Raises BadConfig with file and line."""
    fabric = _read(text, source)
    hosts, problems = _hosts(fabric)
    if not hosts:
        raise BadConfig(f"{source}: expected hosts on switches, found none: no adapter says which host it is in")
    leaves, stray = _leaves(fabric, hosts)
    groups, odd = _rails(hosts, leaves)
    problems += odd + _few_links(hosts, groups, fabric)
    tiers = _tiers(fabric, leaves)
    made = _Domains(fabric, groups, tiers)
    levels = level_names(made.depth)
    paths: dict[NodeName, tuple[str, ...]] = {}
    for host in sorted(hosts, key=natural):
        at = groups.get(host) or next(iter(stray.get(host, ())), None)
        if at is not None:
            paths[NodeName(host)] = made.path(at)
    problems += [
        Problem(
            ProblemKind.NOT_A_LEAF,
            f"node {host} hangs on {fabric.names[at[0]]}, which is above the leaves: it is on no leaf",
            (NodeName(host),),
            (fabric.names[at[0]],),
        )
        for host, at in sorted(stray.items())
    ]
    return Topology(levels=levels, paths=paths, switches=made.several, problems=tuple(problems), source=source)


def _read(text: str, source: str) -> _Fabric:
    fabric = _Fabric({}, {}, {})
    switch = ""
    section = False
    for number, line in enumerate(text.splitlines(), start=1):
        if head := _HEAD.match(line):
            kind, found, words = head.groups()
            section, switch = True, found if kind == "Switch" else ""
            if kind == "Switch":
                if found in fabric.names:
                    refuse(source, number, "each switch once", f"{found} again")
                fabric.names[found] = _short(words or "", found, fabric.names.values())
                fabric.links[found] = Counter()
            elif kind == "Ca":
                fabric.descriptions[found] = words or ""
        elif port := _PORT.match(line):
            if not section:
                refuse(source, number, "a line of Switch or Ca before its ports", "a port")
            if switch:
                fabric.links[switch][port[1]] += 1
        elif not _OTHER.match(line):
            refuse(source, number, "what ibnetdiscover prints (Switch, Ca, ports as [1])", repr(line[:60]))
    if not fabric.names:
        raise BadConfig(f"{source}: expected the output of ibnetdiscover, found no line of Switch")
    return fabric


def _short(description: str, guid: str, taken: Iterable[str]) -> str:
    """`MF0;LEAF-01:MQM9701/U1` -> LEAF-01; the id where that is no name, or another switch has it."""
    name = re.sub(r"^MF0;|:.*$", "", description)
    return name if re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,50}", name) and name not in taken else guid


def _hosts(fabric: _Fabric) -> tuple[dict[str, Counter[str]], list[Problem]]:
    """Each host with its switches and how many links lead there."""
    hosts: dict[str, Counter[str]] = {}
    nameless: Counter[str] = Counter()
    for switch, peers in fabric.links.items():
        for peer, cables in peers.items():
            words = fabric.descriptions.get(peer)
            if words is None or _AGGREGATION in words:
                continue
            found = _HOST.match(words)
            if found and found[1] not in _NO_HOSTS:
                hosts.setdefault(found[1], Counter())[switch] += cables
            else:
                nameless[fabric.names[switch]] += cables
    if not nameless:
        return hosts, []
    on = tuple(sorted(nameless, key=natural))
    text = f"{nameless.total()} adapters on {len(on)} switches do not say which host they are in ({fold(on)})"
    return hosts, [Problem(ProblemKind.NO_NAME, text, (), on)]


def _leaves(fabric: _Fabric, hosts: Mapping[str, Counter[str]]) -> tuple[set[str], dict[str, list[str]]]:
    """The leaves; and hosts on none of them, with the switches where they are."""
    count: Counter[str] = Counter()
    for on in hosts.values():
        count.update(on.keys())
    leaves = {
        switch
        for switch in count
        if not any(count[peer] >= _MANY_TIMES * count[switch] for peer in fabric.links[switch] if peer in count)
    }
    stray = {
        host: sorted(on, key=lambda s: (-on[s], natural(fabric.names[s])))
        for host, on in hosts.items()
        if not on.keys() & leaves
    }
    return leaves, stray


_Group = tuple[str, ...]


def _rails(hosts: Mapping[str, Counter[str]], leaves: set[str]) -> tuple[dict[str, _Group], list[Problem]]:
    """The group of leaves of each host."""
    sets: Counter[frozenset[str]] = Counter(frozenset(on) & leaves for on in hosts.values())
    sets.pop(frozenset(), None)
    ordered = sorted(sets, key=lambda s: (-sets[s], -len(s), sorted(s)))
    group_of: dict[str, int] = {}
    torn: set[frozenset[str]] = set()
    for number, found in enumerate(ordered):
        known = {group_of[leaf] for leaf in found if leaf in group_of}
        if len(known) > 1:
            torn.add(found)
            continue
        for leaf in found:
            group_of.setdefault(leaf, next(iter(known), number))
    for found in torn:  # leaves that only such hosts have
        for leaf in sorted(found - group_of.keys()):
            group_of[leaf] = min(group_of[other] for other in found if other in group_of)
    members: dict[int, list[str]] = {}
    for leaf, number in group_of.items():
        members.setdefault(number, []).append(leaf)
    groups = {number: tuple(sorted(found)) for number, found in members.items()}
    placed: dict[str, _Group] = {}
    problems: list[Problem] = []
    for host in sorted(hosts, key=natural):
        links: Counter[int] = Counter()
        for leaf, cables in hosts[host].items():
            if leaf in leaves:
                links[group_of[leaf]] += cables
        if not links:
            continue
        ranked = sorted(links, key=lambda number: (-links[number], groups[number]))
        placed[host] = groups[ranked[0]]
        if len(ranked) > 1:
            problems.append(_in_two(host, links, ranked))
    return placed, problems


def _in_two(host: str, links: Counter[int], ranked: Sequence[int]) -> Problem:
    counts = " and ".join(str(links[number]) for number in ranked)
    text = f"node {host} is on leaves of {len(ranked)} groups ({counts} links): taken to be where it has most"
    return Problem(ProblemKind.TWO_PLACES, text, (NodeName(host),))


def _few_links(hosts: Mapping[str, Counter[str]], groups: Mapping[str, _Group], fabric: _Fabric) -> list[Problem]:
    """Hosts that are on fewer of their group's leaves than there are."""
    missing: dict[str, list[str]] = {}
    for host, group in groups.items():
        for leaf in group:
            if leaf not in hosts[host]:
                missing.setdefault(leaf, []).append(host)
    return [
        Problem(
            ProblemKind.FEW_LINKS,
            f"{fold(found)}: no link to leaf {fabric.names[leaf]}, which others of the group have",
            tuple(map(NodeName, found)),
            (fabric.names[leaf],),
        )
        for leaf, found in sorted(missing.items(), key=lambda item: natural(fabric.names[item[0]]))
    ]


def _tiers(fabric: _Fabric, leaves: set[str]) -> dict[str, int]:
    """How many links each switch is away from the nearest leaf."""
    tiers = dict.fromkeys(leaves, 0)
    last = sorted(leaves)
    while last:
        after: list[str] = []
        for switch in last:
            for peer in fabric.links[switch]:
                if peer in fabric.links and peer not in tiers:
                    tiers[peer] = tiers[switch] + 1
                    after.append(peer)
        last = after
    return tiers


class _Domains:
    """Paths of domains, made once for each group of leaves."""

    def __init__(self, fabric: _Fabric, groups: Mapping[str, _Group], tiers: Mapping[str, int]) -> None:
        self.several: dict[str, tuple[str, ...]] = {}
        self._fabric, self._tiers = fabric, tiers
        self.depth = 0
        self._root: list[dict[str, str]] = []  # of each level: a switch -> what stands for its domain
        joined = {switch: switch for switch in tiers}
        for group in sorted(set(groups.values())):
            for leaf in group[1:]:
                _join(joined, group[0], leaf)
        before = -1
        for level in range(max(tiers.values()) + 1):
            for switch, peers in fabric.links.items() if level else ():
                for peer in peers:
                    if switch in tiers and peer in tiers and max(tiers[switch], tiers[peer]) <= level:
                        _join(joined, switch, peer)
            apart = len({_find(joined, switch) for switch in tiers if not tiers[switch]})  # domains that have leaves
            if level < 2 or apart < before:
                self._root.append({switch: _find(joined, switch) for switch in tiers if tiers[switch] <= level})
            before = apart
        self.depth = len(self._root)
        self._name = [self._names(level) for level in range(self.depth)]

    def path(self, at: _Group | str) -> tuple[str, ...]:
        """From a group of leaves, or a switch above them, up."""
        switch = at if isinstance(at, str) else at[0]
        return tuple(self._name[level][root[switch]] if switch in root else "" for level, root in enumerate(self._root))

    def _names(self, level: int) -> dict[str, str]:
        """A domain is called after its switches of that level, or, where it has none there, of the one below."""
        members: dict[str, list[str]] = {}
        for switch, root in self._root[level].items():
            members.setdefault(root, []).append(switch)
        names: dict[str, str] = {}
        for root, found in members.items():
            top = max(self._tiers[switch] for switch in found)
            called = sorted((self._fabric.names[s] for s in found if self._tiers[s] == top), key=natural)
            names[root] = called[0] if len(called) == 1 else f"{called[0]}.x{len(called)}"
            if len(called) > 1:
                self.several[names[root]] = tuple(called)
        return names


def _find(joined: dict[str, str], switch: str) -> str:
    while joined[switch] != switch:
        joined[switch] = joined[joined[switch]]
        switch = joined[switch]
    return switch


def _join(joined: dict[str, str], a: str, b: str) -> None:
    first, second = sorted((_find(joined, a), _find(joined, b)))
    joined[second] = first
