"""Classes: requests equal in all that placement reads, except the time limit, folded into one row each."""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
from msgspec.structs import replace

from gsched.values.ids import NodeName
from gsched.values.job import MemoryRule, Request
from gschedd.core.columns import NodeRows, Numbers
from gschedd.core.inputs import QueueInput
from gschedd.core.kernels.arrays import (
    CLASS_GPU_ROW,
    CLASS_ROW,
    MEMORY_ALL,
    MEMORY_EXACT,
    MEMORY_SHARE,
    SOMEDAY,
    ClassArrays,
    Grid,
    ShapeArrays,
)
from gschedd.core.node_columns import EligibleKey, NodeColumns, UsableKey

_RULES: Final = {MemoryRule.EXACT: MEMORY_EXACT, MemoryRule.SHARE: MEMORY_SHARE, MemoryRule.ALL: MEMORY_ALL}
_COLUMNS: Final = 9  # CLASS_

ClassKey: TypeAlias = tuple[Request, tuple[NodeName, ...]]


class ClassTable:
    """The distinct requests of the queue. A number is given out again when the last job of its class has left.

    Which nodes a class may use is kept too, one row for each distinct set of constraints.
    """

    def __init__(self, nodes: NodeColumns) -> None:
        self._nodes = nodes
        self._numbers: Numbers[ClassKey] = Numbers()
        self._grid: Grid = np.zeros((_COLUMNS, 64), dtype=np.int64)
        self._shapes: Grid = np.zeros((len(ShapeArrays._fields), 64), dtype=np.int64)
        self._names: dict[str, int] = {"": 0}  # of levels and reservations: few, and kept
        self._eligible: NodeRows[EligibleKey] = NodeRows(nodes.eligible_row, np.uint8)
        self._usable: NodeRows[UsableKey] = NodeRows(nodes.usable_row, np.int64)

    def enter(self, job: QueueInput) -> int:
        """The number of the job's class, held by one job more."""
        key = replace(job.request, time_limit_s=0, spread_note=""), tuple(sorted(job.avoid))
        return self._numbers.take(key, self._begin)

    def leave(self, number: int) -> None:
        """One job less holds it."""
        if self._numbers.give_back(number):
            self._eligible.give_back(int(self._grid[CLASS_ROW, number]))
            self._usable.give_back(int(self._grid[CLASS_GPU_ROW, number]))

    def requests(self) -> tuple[Request, ...]:
        """One for each class."""
        return tuple(request for request, _ in self._numbers.keys)

    def arrays(self) -> ClassArrays:
        """Views; the nodes' columns are right."""
        size, shape = len(self._nodes.names), self._nodes.shape
        eligible, usable = self._eligible.rows(size, shape), self._usable.rows(size, shape)
        return ClassArrays._make((*self._grid[:, : len(self._numbers.keys)], eligible, usable))

    def shapes(self) -> ShapeArrays:
        """Views."""
        return ShapeArrays._make(self._shapes[:, : len(self._numbers.keys)])

    def shape_names(self) -> tuple[str, ...]:
        """What the numbers in `shapes` mean."""
        return tuple(self._names)

    def _begin(self, number: int) -> None:
        if number == self._grid.shape[1]:
            self._grid = np.pad(self._grid, ((0, 0), (0, number)))
            self._shapes = np.pad(self._shapes, ((0, 0), (0, number)))
        request, avoid = self._numbers.keys[number]
        place = request.partition, request.constraint, request.nodelist, request.exclude, avoid
        row = self._eligible.take(place)
        least_mib = max(request.gpu_memory_mib, request.need.gpu_mem_mib)
        gpu_row = self._usable.take((request.gpu_model, least_mib, request.need.mig_profile))
        self._grid[:, number] = _columns(request, row, gpu_row)
        self._shapes[:, number] = self._shape(request)

    def _shape(self, request: Request) -> tuple[int, ...]:
        """In the order of ShapeArrays."""
        return (
            self._number(request.level),
            self._number(request.prefer_level),
            int(request.any_topology),
            request.switches,
            1000 * request.switches_wait_s or SOMEDAY,
            request.segment,
            self._number(request.reservation),
        )

    def _number(self, name: str) -> int:
        return self._names.setdefault(name, len(self._names))


def _columns(request: Request, row: int, gpu_row: int) -> tuple[int, ...]:
    """In the order of ClassArrays."""
    need, required = request.need, len(set(request.nodelist))
    return (
        max(request.nodes_min, required),
        max(request.nodes_max, required),
        need.cpus,
        need.gpus,
        _RULES[need.mem_rule],
        need.mem_mib,
        row,
        gpu_row,
        required,
    )
