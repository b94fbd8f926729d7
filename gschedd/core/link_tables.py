"""How well each subset of a node's GPUs is joined, as tables for each kind of node."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np

from gsched.values.node import Link
from gschedd.core.kernels.arrays import Int64s, Links
from gschedd.core.kernels.links import TABLE_GPUS, link_tables_nb

LinkedGpus: TypeAlias = tuple[int, tuple[tuple[str, ...], ...]]  # GPU indices up to here; the inventory's link matrix

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


def link_arrays(ordered: Sequence[LinkedGpus]) -> tuple[Links, list[int]]:
    """Tables of each kind of node, and each node's kind."""
    rows: dict[LinkedGpus, int] = {}
    kinds = [rows.setdefault(linked, len(rows)) for linked in ordered]
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
