"""The filters between a request and the nodes, in order, over plain values: which node each one takes out, and why.

The first group never changes while nodes stay as they are, the second is a node's state, the third is what is free
now. `explain.py` counts with them; they follow the kernels' rules but look at one request only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from gsched.spec.constraints import parse_constraint
from gsched.values.ids import Instant, NodeName
from gsched.values.job import MemoryRule, Request
from gsched.values.node import Inventory
from gsched.values.run import NodeShare
from gschedd.core.features import model_mask
from gschedd.core.inputs import Availability, NodeInput, QueueInput

WHOLE: Final = 1000  # thousandths of a GPU


class Filter(Struct, frozen=True):
    """One filter: its name for programs, words for the nodes it takes out, and the test."""

    name: str
    text: str
    keeps: Callable[[NodeInput], bool]


class Sieved(Struct, frozen=True):
    """What one filter did."""

    filter: Filter
    out: tuple[NodeInput, ...]
    left: tuple[NodeInput, ...]


def sieve(nodes: Sequence[NodeInput], filters: Iterable[Filter]) -> list[Sieved]:
    """Pass the nodes through the filters, one after the other."""
    steps: list[Sieved] = []
    left = tuple(nodes)
    for each in filters:
        kept = tuple(node for node in left if each.keeps(node))
        inside = {node.name for node in kept} if len(kept) != len(left) else None
        out = () if inside is None else tuple(node for node in left if node.name not in inside)
        steps.append(Sieved(each, out, kept))
        left = kept
    return steps


def asked_mask(request: Request, node: NodeInput) -> int:
    """Mask of the node's GPUs that are of the kind asked: model and memory."""
    inventory = node.inventory
    small = sum(1 << gpu.index for gpu in inventory.gpus if gpu.memory_mib < request.gpu_memory_mib)
    return model_mask(request.gpu_model, inventory) & ~small


def memory_of(request: Request, inventory: Inventory) -> int:
    """Memory (MiB) that a member of the job takes on a node of this inventory."""
    need = request.need
    if need.mem_rule is MemoryRule.EXACT:
        return need.mem_mib
    if need.mem_rule is MemoryRule.ALL:
        return inventory.memory_mib
    if need.gpus:
        return inventory.memory_mib * need.gpus // max(len(inventory.gpus), 1)
    return inventory.memory_mib * need.cpus // max(inventory.cpus, 1)


def static_filters(request: Request, asked: Mapping[NodeName, int]) -> list[Filter]:
    """What stays true while the nodes are as they are. asked: mask of each node's GPUs of the kind asked."""
    need, model = request.need, request.gpu_model
    named = frozenset(request.nodelist)
    constraint = parse_constraint(request.constraint) if request.constraint else None
    filters = [
        Filter("partition", f"not in partition {request.partition}", lambda n: request.partition in n.partitions)
    ]
    if request.exclude:
        excluded = frozenset(request.exclude)
        filters.append(Filter("exclude", "excluded by name", lambda n: n.name not in excluded))
    if named and len(named) >= request.nodes_max:
        filters.append(Filter("nodelist", "not among the nodes named", lambda n: n.name in named))
    if constraint is not None:
        filters.append(Filter("features", f"without {request.constraint}", lambda n: constraint.met_by(n.features)))
    if need.gpus:
        if model:
            filters.append(Filter("gpu_model", "wrong GPU model", lambda n: model_mask(model, n.inventory) != 0))
        else:
            filters.append(Filter("gpu_model", "no GPUs", lambda n: bool(n.inventory.gpus)))
        if request.gpu_memory_mib:
            filters.append(Filter("gpu_memory", "GPUs too small", lambda n: asked[n.name] != 0))
        filters.append(Filter("gpus", "too few GPUs", lambda n: asked[n.name].bit_count() >= need.gpus))
    filters.append(Filter("cores", "too few cores", lambda n: n.inventory.cpus >= need.cpus))
    filters.append(
        Filter("memory", "too little memory", lambda n: n.inventory.memory_mib >= memory_of(request, n.inventory))
    )
    return filters


def state_filters(job: QueueInput, asked: Mapping[NodeName, int]) -> list[Filter]:
    """What a node's state forbids."""
    request, avoid = job.request, frozenset(job.avoid)
    filters = [
        Filter("drained", "drained", lambda n: n.availability is not Availability.DRAINED),
        Filter("away", "away", lambda n: n.availability is not Availability.AWAY),
    ]
    if request.need.gpus:
        filters.append(
            Filter(
                "gpus_out",
                "GPUs out of service",
                lambda n: (asked[n.name] & ~n.gpus_out).bit_count() >= request.need.gpus,
            )
        )
    if avoid:
        filters.append(Filter("avoid", "a launch of it failed there", lambda n: n.name not in avoid))
    return filters


class Taken(Struct, frozen=True):
    """One run's part on one node, and until when."""

    who: str  # "job 12"
    share: NodeShare
    until: Instant | None  # None = not known


class Room(Struct, frozen=True):
    """What is free on one node: whole GPUs, and the GPUs that have room for the fraction asked, cores, memory."""

    gpus: int  # mask of the kind asked, with room for the request
    cores: int
    memory: int


def room(request: Request, node: NodeInput, asked: int, taken: Iterable[Taken]) -> Room:
    """What is left of a node beside what is taken there. asked: its GPUs of the kind asked."""
    need = request.need
    gpus = asked & ~node.gpus_out
    cores, memory = node.inventory.cpus, node.inventory.memory_mib
    parts: dict[int, int] = {}  # GPU -> thousandths that fractions hold
    for each in taken:
        share = each.share
        cores -= share.cpus
        memory -= share.mem_mib
        if not share.gpu_milli and not share.slices:
            gpus &= ~share.gpus
        else:
            for index in share.gpu_indices:
                parts[index] = parts.get(index, 0) + (share.gpu_milli or WHOLE)
    for index, milli in parts.items():
        if milli + (need.gpu_milli if not need.mig_profile else WHOLE) > WHOLE:
            gpus &= ~(1 << index)
    return Room(gpus, cores, memory)
