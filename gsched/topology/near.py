"""Which cores a job takes on a node: near its GPUs, and out of the way of others'."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from gsched.values.node import NumaNode

_NOT_THERE: Final = -1


class Near(Struct, frozen=True):
    """What to take: cores by number, and the NUMA nodes whose memory is near."""

    cores: tuple[int, ...]
    memory_nodes: tuple[int, ...]  # NUMA nodes of the cores; where there are none those of the GPUs


def cores_near(numa: Sequence[NumaNode], gpu_numa: Sequence[int], mask: int, free: int, count: int) -> Near:
    """Choose `count` free cores for the GPUs of `mask`; fewer where fewer are free.

    gpu_numa: the NUMA node of each GPU of the machine. free: bitmask of free cores. In order: cores of the NUMA nodes
    of the GPUs, by how many of the GPUs each has; then of NUMA nodes without any GPU; then of the others. Among equals
    the node that holds all that is missing and is fullest, else the one with most; then the lowest. Within a node the
    lowest cores.
    """
    wanted = {node.index: 0 for node in numa}
    near = [node for index, node in enumerate(gpu_numa) if mask >> index & 1]
    of_gpus = {node: near.count(node) for node in near if node in wanted}
    open_cores = {node.index: [core for core in node.cores if free >> core & 1] for node in numa}
    left = count
    for node, amount in _shares(of_gpus, count):
        wanted[node] = min(amount, len(open_cores[node]))
        left -= wanted[node]
    while left > 0:
        best = min(
            (index for index in wanted if len(open_cores[index]) > wanted[index]),
            key=lambda index: _rank(index, len(open_cores[index]) - wanted[index], left, of_gpus, gpu_numa),
            default=_NOT_THERE,
        )
        if best == _NOT_THERE:
            break
        more = min(left, len(open_cores[best]) - wanted[best])
        wanted[best] += more
        left -= more
    cores = sorted(core for index, amount in wanted.items() for core in open_cores[index][:amount])
    used = [index for index, amount in wanted.items() if amount] or list(of_gpus)
    return Near(tuple(cores), tuple(sorted(used)))


def _shares(of_gpus: dict[int, int], count: int) -> list[tuple[int, int]]:
    """Deal `count` out by the numbers of GPUs; what is left over goes to the largest remainders, then the lowest."""
    total = sum(of_gpus.values())
    if not total:
        return []
    order = sorted(of_gpus, key=lambda node: (-(count * of_gpus[node] % total), node))
    over = count - sum(count * amount // total for amount in of_gpus.values())
    return [(node, count * of_gpus[node] // total + (1 if at < over else 0)) for at, node in enumerate(order)]


def _rank(index: int, spare: int, left: int, of_gpus: dict[int, int], gpu_numa: Sequence[int]) -> tuple[int, ...]:
    kind = 0 if index in of_gpus else 1 if index not in gpu_numa else 2
    return (kind, 0, spare, index) if spare >= left else (kind, 1, -spare, index)
