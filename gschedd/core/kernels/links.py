"""Which GPUs of a node: the best joined subset, and among equals the one that leaves the best subset behind."""

from __future__ import annotations

from typing import Final

from gschedd.core.kernels.arrays import (
    LINK_BEST_OFFSET,
    LINK_GPUS,
    LINK_OFFSET,
    Int64s,
    Links,
)
from gschedd.core.kernels.bits import popcount_nb
from gschedd.core.kernels.compiled import kernel

TABLE_GPUS: Final = 16  # nodes with more GPUs get no table (2^n rows); their GPUs are taken from the lowest index


@kernel
def link_tables_nb(matrix: Int64s, worst: Int64s, rest: Int64s, best: Int64s) -> None:
    """Fill the three tables for one link matrix.

    matrix: (k, k) class of the link between two GPUs, smaller is better. worst, rest: (2^k,). best: (2^k, k + 1), the
    class of the best subset of a size within a mask; 0 for sizes 0 and 1, and for sizes the mask does not have.
    """
    k = matrix.shape[0]
    for mask in range(1, 1 << k):
        low = 0
        while not mask >> low & 1:
            low += 1
        others = mask & (mask - 1)
        cls = worst[others]
        for i in range(low + 1, k):
            if others >> i & 1:
                cls = max(cls, matrix[low, i])
        worst[mask] = cls
        size = popcount_nb(mask)
        best[mask, size] = cls
        for count in range(2, size):
            least = best[mask & ~(1 << low), count]
            for i in range(low + 1, k):
                if mask >> i & 1:
                    least = min(least, best[mask & ~(1 << i), count])
            best[mask, count] = least
        total = 0
        for count in range(2, size + 1):
            total += best[mask, count]
        rest[mask] = total


@kernel
def subset_class_nb(links: Links, kind: int, mask: int, count: int) -> int:
    """Class of the worst link in the best subset of `count` GPUs within `mask`; 0 where links do not matter."""
    if count < 2 or links.kinds[LINK_OFFSET, kind] < 0:
        return 0
    return int(links.best[links.kinds[LINK_BEST_OFFSET, kind] + mask * (links.kinds[LINK_GPUS, kind] + 1) + count])


@kernel
def subset_nb(links: Links, kind: int, mask: int, count: int) -> int:
    """The subset of `count` GPUs of `mask` to take: least (worst link, what is left, mask). `mask` holds enough."""
    if count == 0:
        return 0
    if links.kinds[LINK_OFFSET, kind] < 0:
        taken = 0
        for _ in range(count):
            taken |= mask & ~taken & -(mask & ~taken)
        return taken
    offset = links.kinds[LINK_OFFSET, kind]
    choice = 0
    choice_worst = 0
    choice_rest = 0
    sub = mask
    while sub:
        if popcount_nb(sub) == count:
            worst = links.worst[offset + sub]
            rest = links.rest[offset + (mask & ~sub)]
            better = worst < choice_worst or (worst == choice_worst and rest <= choice_rest)
            if choice == 0 or better:  # masks come in falling order: of equals the last, the lowest, stays
                choice, choice_worst, choice_rest = sub, worst, rest
        sub = (sub - 1) & mask
    return choice
