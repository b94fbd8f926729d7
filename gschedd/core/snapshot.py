"""The cluster and its queue as arrays: what a pass reads. Made from plain values by one gate that fixes dtypes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gsched.values.ids import NodeName
from gsched.values.job import MemoryRule, Request
from gsched.values.node import Link
from gschedd.core.features import all_gpus, features_match, model_mask
from gschedd.core.inputs import Availability, HoldInput, NodeInput, QueueInput
from gschedd.core.kernels.arrays import (
    AVOIDED,
    MAY,
    MEMORY_ALL,
    MEMORY_EXACT,
    MEMORY_SHARE,
    MUST,
    SOMEDAY,
    ClassArrays,
    Int64s,
    Links,
    NodeArrays,
    QueueArrays,
    RunArrays,
    Tree,
)
from gschedd.core.kernels.links import TABLE_GPUS, link_tables_nb

MOST_GPUS = 62  # per node: a mask stays a positive int64
MOST_NODES = 1 << 20  # the node index has 20 bits of a sort key


class Snapshot(Struct, frozen=True):
    """What a pass decides on. Nodes are in topology order, so every switch is one contiguous range."""

    names: tuple[NodeName, ...]
    nodes: NodeArrays
    tree: Tree
    links: Links
    classes: ClassArrays
    queue: QueueArrays
    runs: RunArrays
    requests: tuple[Request, ...]  # one for each class, for words only


def build_snapshot(nodes: Sequence[NodeInput], holds: Sequence[HoldInput], queue: Sequence[QueueInput]) -> Snapshot:
    """Turn values into arrays. Names of unknown nodes in holds are passed over: nothing can be placed there."""
    ordered = sorted(nodes, key=_topology_key)
    assert len(ordered) < MOST_NODES
    index = {node.name: i for i, node in enumerate(ordered)}
    assert len(index) == len(ordered), "two nodes of one name"
    runs = _run_arrays(holds, index)
    links, kinds = _link_arrays(ordered)
    classes, columns, requests = _queue_arrays(ordered, index, queue)
    return Snapshot(
        names=tuple(index),
        nodes=_node_arrays(ordered, kinds, runs),
        tree=_tree(ordered),
        links=links,
        classes=classes,
        queue=columns,
        runs=runs,
        requests=requests,
    )


def int64s(values: Sequence[int]) -> Int64s:
    """An array of the one dtype that kernels take."""
    return np.array(values, dtype=np.int64)


def _topology_key(node: NodeInput) -> tuple[list[list[tuple[int, int, str]]], list[tuple[int, int, str]]]:
    """From the root switch to the leaf, then by name; n2 comes before n10."""
    return [_natural(name) for name in reversed(node.switches)], _natural(node.name)


def _natural(name: str) -> list[tuple[int, int, str]]:
    """Sort key of a name in which runs of digits count as numbers."""
    return [(0, int(part), part) if part.isdecimal() else (1, 0, part) for part in re.split(r"([0-9]+)", name) if part]


def _tree(ordered: Sequence[NodeInput]) -> Tree:
    """The domains of each level. Shorter switch paths count from the root."""
    size = len(ordered)
    depth = max((len(node.switches) for node in ordered), default=0)
    domain = np.zeros((depth + 1, size), dtype=np.int64)
    first = np.full((depth + 1, size + 1), size, dtype=np.int64)
    domains = np.zeros(depth + 1, dtype=np.int64)
    for level in range(depth + 1):
        before: tuple[str, ...] | None = None
        number = -1
        for n, node in enumerate(ordered):
            path = node.switches[::-1][: depth - level]
            if path != before:
                number += 1
                first[level, number] = n
                before = path
            domain[level, n] = number
        domains[level] = number + 1
    return Tree(domain, first, domains)


def _node_arrays(ordered: Sequence[NodeInput], kinds: Sequence[int], runs: RunArrays) -> NodeArrays:
    cores = int64s([node.inventory.cpus for node in ordered])
    memory = int64s([node.inventory.memory_mib for node in ordered])
    gpus = int64s([all_gpus(node.inventory) for node in ordered])
    healthy = gpus & ~int64s([node.gpus_out & ((1 << MOST_GPUS) - 1) for node in ordered])
    free_cores, free_memory, free_gpus = cores.copy(), memory.copy(), healthy.copy()
    np.subtract.at(free_cores, runs.node, runs.cores)
    np.subtract.at(free_memory, runs.node, runs.memory)
    np.bitwise_and.at(free_gpus, runs.node, ~runs.gpus)
    return NodeArrays(
        up=int64s([node.availability is Availability.UP for node in ordered]),
        cores=cores,
        memory=memory,
        gpus=gpus,
        healthy=healthy,
        free_cores=free_cores,
        free_memory=free_memory,
        free_gpus=free_gpus,
        links=int64s(kinds),
    )


def _run_arrays(holds: Sequence[HoldInput], index: dict[NodeName, int]) -> RunArrays:
    rows = [
        (index[share.node], SOMEDAY if hold.expected_end is None else hold.expected_end, share, number)
        for number, hold in enumerate(holds)
        for share in hold.shares
        if share.node in index
    ]
    return RunArrays(
        node=int64s([node for node, _, _, _ in rows]),
        end=int64s([end for _, end, _, _ in rows]),
        cores=int64s([share.cpus for _, _, share, _ in rows]),
        memory=int64s([share.mem_mib for _, _, share, _ in rows]),
        gpus=int64s([share.gpus for _, _, share, _ in rows]),
        run=int64s([number for _, _, _, number in rows]),
    )


_LINK_CLASS: Final[dict[str, int]] = {Link.PIX: 32, Link.PXB: 33, Link.PHB: 34, Link.NODE: 35, Link.SYS: 36}


def link_class(cell: str) -> int:
    """Class of a cell of `nvidia-smi topo -m`, smaller is better: NVS, then NVLinks by their number, then PCIe."""
    if cell == Link.NVSWITCH:
        return 0
    if cell.startswith(Link.NVLINK):
        count = cell.removeprefix(Link.NVLINK)
        return 31 - min(int(count), 30) if count.isdecimal() else 31
    return _LINK_CLASS.get(cell, 36)


@lru_cache(maxsize=256)
def _link_tables(count: int, cells: tuple[tuple[str, ...], ...]) -> tuple[Int64s, Int64s, Int64s]:
    """(worst, rest, best) for a kind of node. Cells that are missing count as the worst link."""
    matrix = np.full((count, count), link_class(Link.SYS), dtype=np.int64)
    for a, row in enumerate(cells[:count]):
        for b, cell in enumerate(row[:count]):
            matrix[a, b] = link_class(cell)
    matrix = np.maximum(matrix, matrix.T)
    worst, rest = np.zeros(1 << count, dtype=np.int64), np.zeros(1 << count, dtype=np.int64)
    best = np.zeros((1 << count, count + 1), dtype=np.int64)
    link_tables_nb(matrix, worst, rest, best)
    return worst, rest, best.reshape(-1)


def _link_arrays(ordered: Sequence[NodeInput]) -> tuple[Links, list[int]]:
    """Tables of each kind of node, and each node's kind."""
    rows: dict[tuple[int, tuple[tuple[str, ...], ...]], int] = {}
    kinds = []
    for node in ordered:
        count = all_gpus(node.inventory).bit_length()
        assert count <= MOST_GPUS
        kinds.append(rows.setdefault((count, node.inventory.links), len(rows)))
    tables = [_link_tables(*key) if key[0] <= TABLE_GPUS else None for key in rows]
    empty = np.zeros(0, dtype=np.int64)
    offsets, best_offsets, at, best_at = [], [], 0, 0
    for table in tables:
        offsets.append(-1 if table is None else at)
        best_offsets.append(best_at)
        if table is not None:
            at, best_at = at + table[0].size, best_at + table[2].size
    made = [table for table in tables if table is not None]
    return (
        Links(
            kinds=np.array([[count for count, _ in rows], offsets, best_offsets], dtype=np.int64),
            worst=np.concatenate([empty, *(table[0] for table in made)]),
            rest=np.concatenate([empty, *(table[1] for table in made)]),
            best=np.concatenate([empty, *(table[2] for table in made)]),
        ),
        kinds,
    )


_RULES = {MemoryRule.EXACT: MEMORY_EXACT, MemoryRule.SHARE: MEMORY_SHARE, MemoryRule.ALL: MEMORY_ALL}


def _queue_arrays(
    ordered: Sequence[NodeInput], index: dict[NodeName, int], queue: Sequence[QueueInput]
) -> tuple[ClassArrays, QueueArrays, tuple[Request, ...]]:
    """Fold equal requests into classes; each distinct request is looked at once."""
    seen: dict[tuple[Request, tuple[NodeName, ...]], tuple[int, int]] = {}
    class_of: dict[tuple[Request, tuple[NodeName, ...]], int] = {}
    cls, limit = [], []
    for job in queue:
        key = (job.request, job.avoid)
        known = seen.get(key)
        if known is None:
            alike = replace(job.request, time_limit_s=0, spread_note="")
            number = class_of.setdefault((alike, tuple(sorted(job.avoid))), len(class_of))
            known = seen[key] = number, job.request.time_limit_s * 1000 or SOMEDAY
        cls.append(known[0])
        limit.append(known[1])
    columns = QueueArrays(job=int64s([job.job for job in queue]), cls=int64s(cls), limit=int64s(limit))
    return _class_arrays(ordered, index, list(class_of)), columns, tuple(request for request, _ in class_of)


def _class_arrays(
    ordered: Sequence[NodeInput], index: dict[NodeName, int], classes: list[tuple[Request, tuple[NodeName, ...]]]
) -> ClassArrays:
    filters = _Filters(ordered, index)
    rows = [filters.row(request, avoid) for request, avoid in classes]
    gpu_rows = [filters.gpu_row(request.gpu_model) for request, _ in classes]
    requests = [request for request, _ in classes]
    required = [len(set(request.nodelist)) for request in requests]
    return ClassArrays(
        least=int64s([max(request.nodes_min, must) for request, must in zip(requests, required, strict=True)]),
        most=int64s([max(request.nodes_max, must) for request, must in zip(requests, required, strict=True)]),
        cores=int64s([request.need.cpus for request in requests]),
        gpus=int64s([request.need.gpus for request in requests]),
        memory_rule=int64s([_RULES[request.need.mem_rule] for request in requests]),
        memory=int64s([request.need.mem_mib for request in requests]),
        row=int64s(rows),
        gpu_row=int64s(gpu_rows),
        required=int64s(required),
        eligible=np.array(filters.rows, dtype=np.uint8).reshape(len(filters.rows), len(ordered)),
        usable=np.array(filters.gpu_rows, dtype=np.int64).reshape(len(filters.gpu_rows), len(ordered)),
    )


class _Filters:
    """One row of nodes for each distinct set of static constraints, made when first asked for."""

    def __init__(self, ordered: Sequence[NodeInput], index: dict[NodeName, int]) -> None:
        self.rows: list[np.typing.NDArray[np.uint8]] = []
        self.gpu_rows: list[list[int]] = []
        self._ordered, self._index = ordered, index
        self._row_of: dict[tuple[object, ...], int] = {}
        self._gpu_row_of: dict[str, int] = {}
        self._by_place: dict[tuple[str, str], np.typing.NDArray[np.uint8]] = {}

    def row(self, request: Request, avoid: tuple[NodeName, ...]) -> int:
        """Row of what each node is to the request: 0, or MAY, MUST and AVOIDED."""
        key = (request.partition, request.constraint, request.nodelist, request.exclude, avoid)
        if key not in self._row_of:
            row = self._place(request.partition, request.constraint).copy()
            for name in request.nodelist:
                if name in self._index and row[self._index[name]]:
                    row[self._index[name]] |= MUST
            for name in request.exclude:
                if name in self._index:
                    row[self._index[name]] = 0
            for name in avoid:
                if name in self._index and row[self._index[name]]:
                    row[self._index[name]] |= AVOIDED
            self._row_of[key] = len(self.rows)
            self.rows.append(row)
        return self._row_of[key]

    def _place(self, partition: str, constraint: str) -> np.typing.NDArray[np.uint8]:
        if (partition, constraint) not in self._by_place:
            self._by_place[partition, constraint] = np.array(
                [
                    MAY * (partition in node.partitions and features_match(constraint, node.features))
                    for node in self._ordered
                ],
                dtype=np.uint8,
            )
        return self._by_place[partition, constraint]

    def gpu_row(self, model: str) -> int:
        """Row of masks: each node's GPUs of that model."""
        if model not in self._gpu_row_of:
            self._gpu_row_of[model] = len(self.gpu_rows)
            self.gpu_rows.append([model_mask(model, node.inventory) for node in self._ordered])
        return self._gpu_row_of[model]
