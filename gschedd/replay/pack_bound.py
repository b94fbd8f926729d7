"""An upper bound for every policy that never turns away a pod that fits: a linear programme.

Nobody leaves, so a kind of pod that once fits nowhere never fits again: of each kind everything up to some instant is
placed and nothing after it, and that instant is no later for a kind than for one that asks for less in every respect.
Beyond that the programme may choose. Arrivals are taken as a steady stream, nodes of one make as one heap of cores and
memory, GPUs as cuttable by the cutting-stock relaxation, so the bound holds in the mean over the seeds, not on each.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from gschedd.core.kernels.shares import WHOLE
from gschedd.core.mix import GPU, Shape, cutting_prices
from gschedd.replay.openb import TraceNode
from gschedd.replay.pack_run import Case

ROUNDS: Final = 30  # cuts come to an end long before
CLOSE: Final = 0.0005  # of the cluster's GPUs

Floats = npt.NDArray[np.float64]


class _Make(Struct, frozen=True, order=True):
    """Nodes that are alike."""

    model: str
    gpus: int
    cores: int
    memory_mib: int


def allocation_bound(case: Case, load: float) -> float:
    """Percent of the cluster's GPUs that can be allocated at most when `load` times its GPUs are asked for."""
    return _Programme(case, load).solve()


def _dominates(more: Shape, less: Shape) -> bool:
    """Whether a node that holds `more` always holds `less`."""
    models = not less.models or (bool(more.models) and set(more.models) <= set(less.models))
    return (
        models
        and more.cores >= less.cores
        and more.memory_mib >= less.memory_mib
        and more.gpus >= less.gpus
        and more.milli >= less.milli
    )


class _Programme:
    """Variables: the instant (0 to 1) of each kind, then how much of a kind is on a make of node, where it may be."""

    def __init__(self, case: Case, load: float) -> None:
        self.shapes = case.shapes
        self.makes = Counter(_make(node) for node in case.nodes)
        self.names = sorted(self.makes)
        counts = np.bincount(case.kinds, minlength=len(self.shapes)).astype(np.float64)
        asked = float((counts * case.asked).sum())
        self.counts: Floats = counts * max(load * case.gpu_milli / asked, 1e-9)
        self.gpus = case.gpu_milli / WHOLE
        self.pairs = [
            (k, m) for k, shape in enumerate(self.shapes) for m, make in enumerate(self.names) if _may(shape, make)
        ]
        self.rows: list[dict[int, float]] = []  # each at most its limit
        self.limits: list[float] = []

    def solve(self) -> float:
        self._capacities()
        self._order()
        sizes = sorted({shape.milli for shape in self.shapes if shape.gpus})
        for _ in range(ROUNDS):
            placed, share = self._optimum()
            demand = [0.0] * len(sizes)
            for (k, _), amount in zip(self.pairs, placed, strict=True):
                if self.shapes[k].gpus:
                    demand[sizes.index(self.shapes[k].milli)] += amount * self.shapes[k].gpus
            worth = cutting_prices(sizes, [max(round(amount * 1000), 1) for amount in demand])
            used = sum(amount * price for amount, price in zip(demand, worth, strict=True)) / GPU
            if used <= self.gpus * (1 + CLOSE):
                break
            self._cut(dict(zip(sizes, worth, strict=True)))
        return 100 * share

    def _column(self, pair: int) -> int:
        return len(self.shapes) + pair

    def _capacities(self) -> None:
        """Cores, memory and GPUs of each make, and no more of a kind placed than came by its instant (exactly that)."""
        for m, make in enumerate(self.names):
            mine = [(i, self.shapes[k]) for i, (k, on) in enumerate(self.pairs) if on == m]
            size = self.makes[make]
            self._at_most({self._column(i): s.cores for i, s in mine}, size * make.cores)
            self._at_most({self._column(i): s.memory_mib for i, s in mine}, size * make.memory_mib)
            self._at_most({self._column(i): s.gpus * s.milli for i, s in mine}, size * make.gpus * WHOLE)
            for several in sorted({s.gpus for _, s in mine if s.gpus > 1}):  # whole pods for several GPUs on a node
                fit = {self._column(i): float(s.gpus // several) for i, s in mine if s.gpus >= several}
                self._at_most(fit, size * (make.gpus // several))

    def _order(self) -> None:
        for more, a in enumerate(self.shapes):
            for less, b in enumerate(self.shapes):
                if more != less and _dominates(a, b):
                    self._at_most({more: 1.0, less: -1.0}, 0)

    def _cut(self, worth: dict[int, int]) -> None:
        """Shares at these prices never cost more than the GPUs they are on: on each make, and on all together."""
        whole: dict[int, float] = {}
        for m, make in enumerate(self.names):
            row = {
                self._column(i): self.shapes[k].gpus * worth[self.shapes[k].milli] / GPU
                for i, (k, on) in enumerate(self.pairs)
                if on == m and self.shapes[k].gpus
            }
            self._at_most(row, self.makes[make] * make.gpus)
            whole |= row
        self._at_most(whole, self.gpus)

    def _at_most(self, row: dict[int, float], limit: float) -> None:
        if row:
            self.rows.append(row)
            self.limits.append(limit)

    def _optimum(self) -> tuple[list[float], float]:
        """(amount of each pair, part of the GPUs allocated)."""
        from scipy.optimize import linprog
        from scipy.sparse import csr_matrix

        width = len(self.shapes) + len(self.pairs)
        goal = np.zeros(width)
        equal: Any = {k: {k: -self.counts[k]} for k in range(len(self.shapes))}
        for i, (k, _) in enumerate(self.pairs):
            shape = self.shapes[k]
            goal[self._column(i)] = -shape.gpus * shape.milli / WHOLE
            equal[k][self._column(i)] = 1.0
        solved = linprog(
            goal,
            A_ub=csr_matrix(_sparse(self.rows), shape=(len(self.rows), width)),
            b_ub=np.array(self.limits),
            A_eq=csr_matrix(_sparse(list(equal.values())), shape=(len(equal), width)),
            b_eq=np.zeros(len(equal)),
            bounds=[(0, 1)] * len(self.shapes) + [(0, None)] * len(self.pairs),
            method="highs",
        )
        assert solved.status == 0, solved.message
        return list(solved.x[len(self.shapes) :]), -float(solved.fun) / self.gpus


def _sparse(rows: list[dict[int, float]]) -> tuple[list[float], tuple[list[int], list[int]]]:
    values = [value for row in rows for value in row.values()]
    at = [i for i, row in enumerate(rows) for _ in row]
    return values, (at, [column for row in rows for column in row])


def _make(node: TraceNode) -> _Make:
    return _Make(node.model, node.gpus, node.cores, node.memory_mib)


def _may(shape: Shape, make: _Make) -> bool:
    fits = shape.cores <= make.cores and shape.memory_mib <= make.memory_mib and shape.gpus <= make.gpus
    return fits and (not shape.models or not shape.gpus or make.model in shape.models)
