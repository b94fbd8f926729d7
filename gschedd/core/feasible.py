"""Could the known nodes ever hold a request, whatever runs there and whatever their state? If not: why, in a sentence.

Checks go from the widest constraint to the narrowest; the first that no set of nodes meets is the one named, with what
was asked and what exists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gsched.values.job import MemoryRule, Request
from gschedd.core.features import features_match, model_mask
from gschedd.core.inputs import NodeInput


def why_impossible(request: Request, nodes: Sequence[NodeInput]) -> str | None:
    """Name the constraint that cannot be met; None if the request is possible, or if no node is known yet."""
    if not nodes:
        return None
    return _wrong_names(request, nodes) or _nothing_left(request, nodes) or _too_many(request, nodes)


def _wrong_names(request: Request, nodes: Sequence[NodeInput]) -> str | None:
    """Names of nodes and partitions that do not exist or contradict each other."""
    known = {node.name for node in nodes}
    for what, names in (("nodelist", request.nodelist), ("exclude", request.exclude)):
        if unknown := sorted(set(names) - known):
            return f"{what} names {_list(unknown)}: no such node is known (known: {_list([n.name for n in nodes])})"
    if both := sorted(set(request.nodelist) & set(request.exclude)):
        return f"nodelist and exclude both name {_list(both)}"
    wanted = len(set(request.nodelist))
    if wanted > request.nodes_max:
        return f"nodelist names {_nodes(wanted)}, all to be used, but {request.nodes_max} at most asked"
    partitions = sorted({partition for node in nodes for partition in node.partitions})
    if request.partition not in partitions:
        return f"partition {request.partition} has no nodes (partitions with nodes: {_list(partitions)})"
    return None


def _nothing_left(request: Request, nodes: Sequence[NodeInput]) -> str | None:
    """Walk the filters; name the first that leaves no node at all, or drops one that must be in."""
    where = f"partition {request.partition}"
    left = list(nodes)
    for keeps, sentence in _filters(request):
        kept = [node for node in left if keeps(node)]
        for node in left:
            if node.name in request.nodelist and not keeps(node):
                return sentence([node], f"node {node.name}")
        if not kept:
            return sentence(left, where)
        left = kept
    return None


_Filter = tuple[Callable[[NodeInput], bool], Callable[[Sequence[NodeInput], str], str]]


def _filters(request: Request) -> list[_Filter]:
    """Each filter with the sentence to say when none of `left` passes it."""
    need, model = request.need, request.gpu_model

    def models(left: Sequence[NodeInput]) -> str:
        return _list(sorted({gpu.model for node in left for gpu in node.inventory.gpus})) or "none"

    def gpus_text(left: Sequence[NodeInput], where: str) -> str:
        most = max(gpus_of(node) for node in left)
        kind = f" of model {model}" if model else ""
        if most == 0:
            return f"{_gpus(need.gpus)} per node asked: {where} has no GPUs"
        if where.startswith("node "):
            return f"{_gpus(need.gpus)}{kind} per node asked: {where} has {most}"
        return f"{_gpus(need.gpus)}{kind} per node asked: the largest node of {where} has {most}"

    def gpus_of(node: NodeInput) -> int:
        return model_mask(model, node.inventory).bit_count()

    return [
        (
            lambda node: request.partition in node.partitions,
            lambda _left, where: f"{where} is not in partition {request.partition}",
        ),
        (
            lambda node: node.name not in request.exclude,
            lambda left, where: f"exclude names every node of {where} ({_nodes(len(left))})",
        ),
        (
            lambda node: features_match(request.constraint, node.features),
            lambda left, where: (
                f"constraint {request.constraint} matches no node of {where} "
                f"(features there: {_list(sorted({f for node in left for f in node.features})) or 'none'})"
            ),
        ),
        (
            lambda node: not model or not need.gpus or gpus_of(node) > 0,
            lambda left, where: f"GPU model {model} asked: {where} has none (models there: {models(left)})",
        ),
        (lambda node: gpus_of(node) >= need.gpus, gpus_text),
        (
            lambda node: node.inventory.cpus >= need.cpus,
            lambda left, where: (
                f"{need.cpus} cores per node asked: {_largest(where)} has {max(node.inventory.cpus for node in left)}"
            ),
        ),
        (
            lambda node: need.mem_rule is not MemoryRule.EXACT or node.inventory.memory_mib >= need.mem_mib,
            lambda left, where: (
                f"{need.mem_mib} MiB of memory per node asked: {_largest(where)} has "
                f"{max(node.inventory.memory_mib for node in left)} MiB"
            ),
        ),
    ]


def _too_many(request: Request, nodes: Sequence[NodeInput]) -> str | None:
    """More nodes than there are that hold one member."""
    passed = [node for node in nodes if all(keeps(node) for keeps, _ in _filters(request))]
    wanted = max(request.nodes_min, len(set(request.nodelist)))
    if len(passed) >= wanted:
        return None
    in_partition = sum(request.partition in node.partitions for node in nodes)
    each = _member(request)
    if len(passed) == in_partition:
        return f"{_nodes(wanted)}{each} asked: partition {request.partition} has {_nodes(in_partition)}"
    return (
        f"{_nodes(wanted)}{each} asked: partition {request.partition} has {len(passed)} such "
        f"{'node' if len(passed) == 1 else 'nodes'} (of {in_partition})"
    )


def _member(request: Request) -> str:
    """What each node must have, in words, without what every node has."""
    need = request.need
    parts = []
    if need.gpus:
        parts.append(_gpus(need.gpus) + (f" of model {request.gpu_model}" if request.gpu_model else ""))
    if need.cpus > 1:
        parts.append(f"{need.cpus} cores")
    if need.mem_rule is MemoryRule.EXACT:
        parts.append(f"{need.mem_mib} MiB of memory")
    if request.constraint:
        parts.append(f"constraint {request.constraint}")
    return f" with {', '.join(parts)} each" if parts else ""


def _largest(where: str) -> str:
    return where if where.startswith("node ") else f"the largest node of {where}"


def _gpus(count: int) -> str:
    return f"{count} GPU" if count == 1 else f"{count} GPUs"


def _nodes(count: int) -> str:
    return f"{count} node" if count == 1 else f"{count} nodes"


def _list(words: Sequence[str]) -> str:
    """A few words with commas; the rest as a number."""
    few = 8
    text = ", ".join(words[:few])
    return text if len(words) <= few else f"{text} and {len(words) - few} more"
