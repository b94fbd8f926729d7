"""Makes rows of ginfo for tests: an 8-GPU node, idle and answering, unless a test says otherwise."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from gsched.protocol.messages import NodePage, NodeRow, PartitionRow
from gsched.values.ids import Instant, NodeName
from gsched.values.node import Gpu, Inventory, Node, NodeState

EIGHT = tuple(Gpu(index=i, uuid=f"GPU-{i}", model="NVIDIA H100", memory_mib=81559) for i in range(8))


def node_row(name: str, *, gpus: tuple[Gpu, ...] = EIGHT, cpus: int = 96, **other: Any) -> NodeRow:
    """A row; `other` are fields of the row or of its node. Any: any field of either."""
    inventory = Inventory(cpus=cpus, memory_mib=1_000_000, gpus=gpus, simulated=True, hostname="host")
    node = Node(name=NodeName(name), inventory=inventory, first_seen=Instant(0), boot_id="b1")
    row = NodeRow(
        node=node,
        state=NodeState.IDLE,
        responding=True,
        partitions=("main",),
        features=(),
        switches=(),
        cpus_used=0,
        mem_used_mib=0,
        gpus_used=0,
        jobs=(),
    )
    node = replace(node, **{key: value for key, value in other.items() if hasattr(node, key)})
    return replace(row, node=node, **{key: value for key, value in other.items() if hasattr(row, key)})


def page_of(*rows: NodeRow, max_time_s: int = 0) -> NodePage:
    """All rows in the partition main."""
    names = tuple(row.node.name for row in rows)
    return NodePage(rows=rows, partitions=(PartitionRow("main", True, max_time_s, names),))
