"""Sorting in place: heapsort, because kernels allocate nothing and numba's own sort does."""

from __future__ import annotations

from gschedd.core.kernels.arrays import Grid
from gschedd.core.kernels.compiled import kernel


@kernel
def sort_nb(grid: Grid, row: int, count: int) -> None:
    """Put the first `count` cells of a row into rising order."""
    for root in range(count // 2 - 1, -1, -1):
        _sift_down_nb(grid, row, root, count)
    for end in range(count - 1, 0, -1):
        grid[row, 0], grid[row, end] = grid[row, end], grid[row, 0]
        _sift_down_nb(grid, row, 0, end)


@kernel
def _sift_down_nb(grid: Grid, row: int, root: int, count: int) -> None:
    """Let the cell at `root` sink until no cell below it is larger."""
    value = grid[row, root]
    child = 2 * root + 1
    while child < count:
        if child + 1 < count and grid[row, child + 1] > grid[row, child]:
            child += 1
        if grid[row, child] <= value:
            break
        grid[row, root] = grid[row, child]
        root, child = child, 2 * child + 1
    grid[row, root] = value
