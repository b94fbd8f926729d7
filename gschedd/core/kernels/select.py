"""Choosing the least of some numbers in place: kernels allocate nothing, and numba's own sort does."""

from __future__ import annotations

from gschedd.core.kernels.arrays import Grid
from gschedd.core.kernels.compiled import kernel


@kernel
def least_first_nb(grid: Grid, row: int, size: int, count: int) -> None:
    """Bring the `count` least of the first `size` values of a row before the others, in any order. Values differ.

    Hoare's selection, with the middle one of three as the pivot.
    """
    first, last = 0, size - 1
    while first < last:
        low, middle, high = grid[row, first], grid[row, (first + last) >> 1], grid[row, last]
        pivot = max(min(low, middle), min(max(low, middle), high))
        i, k = first, last
        while i <= k:
            while grid[row, i] < pivot:
                i += 1
            while grid[row, k] > pivot:
                k -= 1
            if i <= k:
                grid[row, i], grid[row, k] = grid[row, k], grid[row, i]
                i += 1
                k -= 1
        if count <= k + 1:
            last = k
        elif count >= i:
            first = i
        else:
            return
