"""Nodes and partitions as ginfo shows them: sinfo's letters over groups of nodes, a GPU map, and `ginfo --json`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from gsched.protocol.messages import NodePage, NodeRow, PartitionRow
from gsched.render.columns import Column
from gsched.render.text import shown
from gsched.render.times import moment
from gsched.spec.durations import squeue_style
from gsched.spec.nodelists import fold
from gsched.values.node import Gpu, NodeState

DEFAULT: Final = "%#P %.5a %.10l %.6D %.6t %N"
LONG: Final = "%#P %.5a %.10l %.6D %.11T %.6c %.8m %#G %N"
BY_NODE: Final = "%#N %.6D %#P %6t"
BY_NODE_LONG: Final = "%#N %.6D %#P %.11T %.4c %.8m %#G %#f %E"
REASONS: Final = "%20E %9u %19H %N"
GPU_LINES: Final = "%#N %#t %#g %.4A %.4F %O"

_COMPACT: Final = {
    NodeState.IDLE: "idle",
    NodeState.MIXED: "mix",
    NodeState.ALLOCATED: "alloc",
    NodeState.COMPLETING: "comp",
    NodeState.RESERVED: "resv",
    NodeState.MAINT: "maint",
    NodeState.DRAINING: "drng",
    NodeState.DRAINED: "drain",
    NodeState.DOWN: "down",
    NodeState.UNKNOWN: "unk",
}


class NodeGroup(Struct, frozen=True):
    """One line of ginfo: nodes that look alike, seen as part of one partition."""

    partition: PartitionRow
    rows: tuple[NodeRow, ...]  # may be empty: a partition without nodes

    @property
    def first(self) -> NodeRow | None:
        return self.rows[0] if self.rows else None


def state_word(row: NodeRow, compact: bool) -> str:
    """The node's state in small letters, `*` after it while the node does not answer."""
    word = _COMPACT[row.state] if compact else row.state.value.lower()
    return word if row.responding else word + "*"


def group_nodes(page: NodePage, long: bool = False) -> list[NodeGroup]:
    """One group a partition and state, as sinfo's default; `long` also tells nodes of other sizes apart."""
    groups: list[NodeGroup] = []
    for partition in page.partitions:
        alike: dict[tuple[object, ...], list[NodeRow]] = {}
        for row in _in_partition(page, partition):
            key = (state_word(row, compact=False), *((_cpus(row), _memory(row), _gres(row)) if long else ()))
            alike.setdefault(key, []).append(row)
        groups += [NodeGroup(partition, tuple(rows)) for rows in alike.values()]
        if not alike:
            groups.append(NodeGroup(partition, ()))
    return groups


def single_nodes(page: NodePage) -> list[NodeGroup]:
    """One group a node and partition, in the controller's order of nodes; for -N."""
    partitions = {partition.name: partition for partition in page.partitions}
    return [
        NodeGroup(partitions[name], (row,)) for row in page.rows for name in row.partitions if name in partitions
    ] + [NodeGroup(_NOWHERE, (row,)) for row in page.rows if not any(name in partitions for name in row.partitions)]


def nodes_once(page: NodePage) -> list[NodeGroup]:
    """One group a node, whatever its partitions; for --gpus."""
    return [NodeGroup(_NOWHERE, (row,)) for row in page.rows]


def reason_groups(page: NodePage) -> list[NodeGroup]:
    """Nodes that were drained, together where reason, person and time are the same; for -R."""
    alike: dict[tuple[object, ...], list[NodeRow]] = {}
    for row in page.rows:
        if row.node.drained:
            key = (row.node.drain_reason, row.node.drained_by, row.node.drained_at)
            alike.setdefault(key, []).append(row)
    return [NodeGroup(_NOWHERE, tuple(rows)) for rows in alike.values()]


_NOWHERE: Final = PartitionRow(name="n/a", default=False, max_time_s=0, nodes=())


def _in_partition(page: NodePage, partition: PartitionRow) -> list[NodeRow]:
    members = set(partition.nodes)
    return [row for row in page.rows if row.node.name in members or partition.name in row.partitions]


def node_columns() -> dict[str, Column[NodeGroup]]:
    """Give ginfo's letters: sinfo's where it has one, and g A F O for GPUs."""
    return {
        "P": Column("PARTITION", lambda group: _partition(group.partition), about="* = default", cut=False),
        "R": Column("PARTITION", lambda group: shown(group.partition.name), about="without *", cut=False),
        "a": Column("AVAIL", lambda _: "up"),
        "l": Column("TIMELIMIT", lambda group: _limit(group.partition), cut=False),
        "D": Column("NODES", lambda group: str(len(group.rows)), cut=False),
        "t": Column("STATE", lambda group: _of_first(group, lambda row: state_word(row, True)), cut=False),
        "T": Column("STATE", lambda group: _of_first(group, lambda row: state_word(row, False)), cut=False),
        "N": Column("NODELIST", lambda group: fold_names(group.rows), cut=False),
        "c": Column("CPUS", lambda group: _of_first(group, _cpus), about="a node", cut=False),
        "m": Column("MEMORY", lambda group: _of_first(group, _memory), about="MiB a node", cut=False),
        "G": Column("GRES", lambda group: _of_first(group, _gres), about="GPUs a node"),
        "C": Column("CPUS(A/I/O/T)", _cpu_counts, about="used/idle/other/total", cut=False),
        "f": Column("AVAIL_FE", lambda group: _of_first(group, lambda r: ",".join(r.features) or "(null)")),
        "E": Column("REASON", lambda group: _of_first(group, _reason), about="why drained"),
        "u": Column("USER", lambda group: _of_first(group, lambda row: shown(row.node.drained_by) or "n/a")),
        "H": Column("TIMESTAMP", lambda group: _of_first(group, lambda row: moment(row.node.drained_at))),
        "g": Column("MODEL", lambda group: _of_first(group, lambda row: gpu_models(row.node.inventory.gpus))),
        "A": Column("GPUS", lambda group: str(sum(_gpu_total(row) for row in group.rows)), cut=False),
        "F": Column("FREE", lambda group: str(sum(_gpu_free(row) for row in group.rows)), cut=False),
        "O": Column("MAP", lambda group: _of_first(group, gpu_map), about="by index: # used . free", cut=False),
    }


def _of_first(group: NodeGroup, value: Callable[[NodeRow], str]) -> str:
    return "n/a" if group.first is None else value(group.first)


def fold_names(rows: Sequence[NodeRow]) -> str:
    return fold([row.node.name for row in rows]) if rows else ""


def _partition(partition: PartitionRow) -> str:
    return shown(partition.name) + ("*" if partition.default else "")


def _limit(partition: PartitionRow) -> str:
    return squeue_style(partition.max_time_s) if partition.max_time_s > 0 else "infinite"


def _cpus(row: NodeRow) -> str:
    return str(row.node.inventory.cpus)


def _memory(row: NodeRow) -> str:
    return str(row.node.inventory.memory_mib)


def _reason(row: NodeRow) -> str:
    return shown(row.node.drain_reason) or "none"


def _gres(row: NodeRow) -> str:
    counts: dict[str, int] = {}
    for gpu in row.node.inventory.gpus:
        counts[gpu.model] = counts.get(gpu.model, 0) + 1
    return ",".join(f"gpu:{shown(model).replace(' ', '_')}:{count}" for model, count in counts.items()) or "(null)"


def _cpu_counts(group: NodeGroup) -> str:
    used = idle = other = 0
    for row in group.rows:
        total = row.node.inventory.cpus
        used += row.cpus_used
        if row.state in _USABLE and row.responding:
            idle += total - row.cpus_used
        else:
            other += total - row.cpus_used
    return f"{used}/{idle}/{other}/{used + idle + other}"


_USABLE: Final = frozenset({NodeState.IDLE, NodeState.MIXED, NodeState.ALLOCATED, NodeState.COMPLETING})


def gpu_models(gpus: Sequence[Gpu]) -> str:
    """The models of a node's GPUs, each once, in index order."""
    return ",".join(dict.fromkeys(shown(gpu.model) for gpu in gpus)) or "none"


def gpu_map(row: NodeRow) -> str:
    """One sign a GPU in index order: `#` held by a job, `.` free; `-` for a node without GPUs."""
    return "".join("#" if row.gpus_used >> gpu.index & 1 else "." for gpu in row.node.inventory.gpus) or "-"


def _gpu_total(row: NodeRow) -> int:
    return len(row.node.inventory.gpus)


def _gpu_free(row: NodeRow) -> int:
    return gpu_map(row).count(".")


# --- JSON


class GpuJson(Struct, frozen=True):
    index: int
    uuid: str
    model: str
    memory_mib: int
    used: bool  # held by a job


class NodeJson(Struct, frozen=True):
    """One node of `ginfo --json`. Stable: fields are added, never renamed. *_ms is since the epoch; null = none."""

    name: str
    state: str  # IDLE, MIXED, ...
    responding: bool
    partitions: tuple[str, ...]
    features: tuple[str, ...]
    switches: tuple[str, ...]  # from the leaf up
    address: str
    simulated: bool
    cpus: int
    cpus_used: int
    memory_mib: int
    memory_used_mib: int
    gpus: tuple[GpuJson, ...]
    jobs: tuple[int, ...]
    drained: bool
    drain_reason: str
    drained_by: str
    drained_at_ms: int | None


class PartitionJson(Struct, frozen=True):
    name: str
    default: bool
    max_time_s: int | None  # null = no limit
    nodes: tuple[str, ...]


class ClusterJson(Struct, frozen=True):
    """All that `ginfo --json` prints."""

    nodes: tuple[NodeJson, ...]
    partitions: tuple[PartitionJson, ...]
    missing: tuple[str, ...]  # names asked for that the controller does not know
    unconfirmed: bool  # the controller's store does not answer: this may not survive a crash


def cluster_json(page: NodePage) -> ClusterJson:
    return ClusterJson(
        nodes=tuple(node_json(row) for row in page.rows),
        partitions=tuple(partition_json(partition) for partition in page.partitions),
        missing=page.missing,
        unconfirmed=page.unconfirmed,
    )


def partition_json(partition: PartitionRow) -> PartitionJson:
    return PartitionJson(partition.name, partition.default, partition.max_time_s or None, partition.nodes)


def node_json(row: NodeRow) -> NodeJson:
    node, found = row.node, row.node.inventory
    return NodeJson(
        name=node.name,
        state=row.state.value,
        responding=row.responding,
        partitions=row.partitions,
        features=row.features,
        switches=row.switches,
        address=node.address,
        simulated=found.simulated,
        cpus=found.cpus,
        cpus_used=row.cpus_used,
        memory_mib=found.memory_mib,
        memory_used_mib=row.mem_used_mib,
        gpus=tuple(
            GpuJson(gpu.index, gpu.uuid, gpu.model, gpu.memory_mib, bool(row.gpus_used >> gpu.index & 1))
            for gpu in found.gpus
        ),
        jobs=row.jobs,
        drained=node.drained,
        drain_reason=node.drain_reason,
        drained_by=node.drained_by,
        drained_at_ms=node.drained_at,
    )
