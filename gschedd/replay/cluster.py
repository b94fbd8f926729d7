"""The cluster of a replay: nodes that are all alike, and how a job's GPUs are laid on them."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from gsched.errors import BadRequest
from gsched.values.ids import NodeName
from gsched.values.job import NodeNeed, Request
from gsched.values.node import Gpu, Inventory, Link
from gschedd.core.inputs import NodeInput

PARTITION: Final = "main"
MOST_NODES: Final = 100_000
_CORES_PER_GPU: Final = 8  # traces tell of no cores and no memory: these never stand in a GPU's way
_MEMORY_MIB_PER_GPU: Final = 131_072


class Shape(Struct, frozen=True):
    """`12x8`: so many nodes with so many GPUs each, all linked by NVSwitch, under one switch."""

    nodes: int
    gpus: int

    @classmethod
    def parse(cls, text: str) -> Shape:
        """Raises BadRequest."""
        found = re.fullmatch(r"([1-9][0-9]{0,5})x([1-9][0-9]?)", text)
        if not found or int(found[1]) > MOST_NODES or int(found[2]) > 16:
            raise BadRequest(
                f"nodes are written NODESxGPUS, up to {MOST_NODES:,} of 1 to 16 GPUs (12x8): found {text!r}"
            )
        return cls(int(found[1]), int(found[2]))

    @property
    def total(self) -> int:
        return self.nodes * self.gpus

    def __str__(self) -> str:
        return f"{self.nodes}x{self.gpus}"


def make_nodes(shape: Shape) -> tuple[NodeInput, ...]:
    """Nodes n1, n2, ..."""
    links = tuple(tuple("X" if a == b else Link.NVSWITCH.value for b in range(shape.gpus)) for a in range(shape.gpus))
    inventory = Inventory(
        cpus=shape.gpus * _CORES_PER_GPU,
        memory_mib=shape.gpus * _MEMORY_MIB_PER_GPU,
        gpus=tuple(Gpu(index=i, uuid=f"GPU-{i}", model="GPU", memory_mib=81_920) for i in range(shape.gpus)),
        links=links,
    )
    return tuple(NodeInput(NodeName(f"n{i + 1}"), inventory, (PARTITION,)) for i in range(shape.nodes))


def split(gpus: int, shape: Shape) -> tuple[int, int] | None:
    """(nodes, GPUs on each) for a job of so many GPUs; None if the cluster could never hold it.

    A gang's nodes all give the same, so it is the fewest nodes that divide it: 12 GPUs are 2 nodes of 6, never 8 and 4.
    """
    least = -(-gpus // shape.gpus)
    for nodes in range(least, min(gpus, shape.nodes) + 1):
        if gpus % nodes == 0:
            return nodes, gpus // nodes
    return None


def make_request(nodes: int, gpus: int, limit_ms: int | None) -> Request:
    """What the core is asked to place: `gpus` on each of `nodes` nodes. limit_ms None = no limit."""
    limit_s = 0 if limit_ms is None else max(1, -(-limit_ms // 1000))
    return Request(
        partition=PARTITION,
        nodes_min=nodes,
        nodes_max=nodes,
        ntasks=nodes,
        tasks_per_node=1,
        cpus_per_task=gpus,
        need=NodeNeed(cpus=gpus, gpus=gpus),
        time_limit_s=limit_s,
    )
