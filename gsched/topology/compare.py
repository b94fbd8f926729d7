"""Where a topology and the nodes that are known differ: nothing is corrected, all is reported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gsched.spec.nodelists import fold, natural
from gsched.topology.topograph import NVLINK
from gsched.values.ids import NodeName
from gsched.values.topology import Problem, ProblemKind, Topology


def compare(
    topology: Topology, known: Iterable[NodeName], reported: Mapping[NodeName, str] | None = None
) -> tuple[Problem, ...]:
    """What the file has wrong or was read with doubt, in a fixed order.

    known: nodes that are declared or have joined. reported: the NVLink domain that each agent says its node is in; ""
    where it has none that reaches over nodes. A topology without levels is none: nothing is missing from it.
    """
    if not topology.levels:
        return topology.problems
    names = set(known)
    absent = sorted(topology.paths.keys() - names, key=natural)
    strange = sorted(names - topology.paths.keys(), key=natural)
    found = list(topology.problems)
    if absent:
        text = f"{fold(absent)}: in {_called(topology)}, but no such node is known"
        found.append(Problem(ProblemKind.ONLY_IN_FILE, text, tuple(absent)))
    if strange:
        text = f"{fold(strange)}: not in {_called(topology)}: each counts as a domain of its own"
        found.append(Problem(ProblemKind.NOT_IN_FILE, text, tuple(strange)))
    return (*found, *_contradictions(topology, reported or {}))


def _contradictions(topology: Topology, reported: Mapping[NodeName, str]) -> Iterable[Problem]:
    """One NVLink domain under two leaves or in two of the file's; one of the file's that agents call two."""
    level = topology.levels.index(NVLINK) if NVLINK in topology.levels else 0
    exact = NVLINK in topology.levels
    in_file: dict[str, dict[str, list[NodeName]]] = {}  # reported -> domain of the file -> nodes
    in_agents: dict[str, dict[str, list[NodeName]]] = {}  # the other way round
    for node, path in topology.paths.items():
        said = reported.get(node)
        if said is None:
            continue
        if said:
            in_file.setdefault(said, {}).setdefault(path[level], []).append(node)
        if exact and path[level]:
            in_agents.setdefault(path[level], {}).setdefault(said, []).append(node)
    word = topology.levels[level]
    for said, split in sorted(in_file.items()):
        if len(split) > 1:
            yield _contradiction(f"agents report one NVLink domain ({said})", f"different {word} domains", split)
    for domain, split in sorted(in_agents.items()):
        if len(split) > 1:
            yield _contradiction(f"{word} {domain} in the file", "what agents report as different ones", split)


def _contradiction(one: str, others: str, split: Mapping[str, list[NodeName]]) -> Problem:
    parts = "; ".join(f"{name or 'none'}: {fold(nodes)}" for name, nodes in split.items())
    nodes = tuple(node for part in split.values() for node in part)
    return Problem(ProblemKind.CONTRADICTED, f"{one} is {others} ({parts})", nodes, tuple(filter(None, split)))


def _called(topology: Topology) -> str:
    return topology.source or "the topology"
