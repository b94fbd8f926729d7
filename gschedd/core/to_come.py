"""What a pass knows of the time to come, before its first job: promises of the last pass, and room for the events."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gsched.values.ids import NodeName
from gschedd.core.inputs import PlannedStart
from gschedd.core.kernels.arrays import Grid, Int64s
from gschedd.core.kernels.bits import words_of
from gschedd.core.kernels.events import (
    AT_COLUMNS,
    DIGITS,
    FLOOR_ROWS,
    GROUP_ROWS,
    LINE_COLUMNS,
    MARK_ROWS,
    PROMISE_ROWS,
    RELEASE_ROWS,
    Line,
)


def make_line(
    nodes: int,
    held: int,
    ahead: int,
    groups: int,
    classes: int,
    booked: Grid,
    openings: Grid,
    promises: tuple[Grid, Int64s],
) -> Line:
    """An empty line for so many nodes, rows of what is held, rows ahead, groups of those, and classes."""
    return Line(
        releases=np.zeros((RELEASE_ROWS, held), dtype=np.int64),
        spare=np.zeros((RELEASE_ROWS, held), dtype=np.int64),
        groups=np.zeros((GROUP_ROWS, groups), dtype=np.int64),
        reach=np.zeros((groups, words_of(nodes)), dtype=np.int64),
        room=np.zeros((nodes, LINE_COLUMNS), dtype=np.int64),
        marks=np.zeros((MARK_ROWS, words_of(nodes)), dtype=np.int64),
        floors=np.zeros((FLOOR_ROWS, classes), dtype=np.int64),
        booked=booked,
        openings=openings,
        promises=promises[0],
        promised=promises[1],
        todo=np.zeros(nodes + held + ahead, dtype=np.int64),
        at=np.zeros(AT_COLUMNS, dtype=np.int64),
        digits=np.zeros(DIGITS, dtype=np.int64),
    )


def promises_of(planned: Sequence[PlannedStart], jobs: Int64s, names: Sequence[NodeName]) -> tuple[Grid, Int64s]:
    """(PROMISE_ rows of the queue, nodes): what the last pass promised. A promise with a node that is gone is none."""
    grid = np.zeros((PROMISE_ROWS, jobs.size), dtype=np.int64)
    promised: list[int] = []
    if planned:
        index = {name: n for n, name in enumerate(names)}
        start_of = {int(start.job): start for start in planned}
        for row in np.flatnonzero(np.isin(jobs, np.array(list(start_of), dtype=np.int64))).tolist():
            start = start_of[int(jobs[row])]
            nodes = [index.get(name, -1) for name in start.nodes]
            if min(nodes, default=-1) >= 0:
                grid[:, row] = start.at, len(promised), len(nodes)
                promised += nodes
    return grid, np.array(promised, dtype=np.int64)
