"""Numbers of things that come and go, kept in grids that grow: a change writes a few cells and copies nothing else.

Which row a thing has depends on what came before it. No result of a pass may.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from gschedd.core.kernels.arrays import Grid, Int64s

_LEAST_CAPACITY: Final = 64
_FEW: Final = 8

Key = TypeVar("Key", bound=Hashable)


class Rows:
    """Rows without gaps: the last one moves to where one left."""

    def __init__(self, columns: int) -> None:
        self.grid: Grid = np.zeros((columns, _LEAST_CAPACITY), dtype=np.int64)
        self.used = 0

    def add(self, values: Sequence[int]) -> int:
        """Append a row, its values in the order of the columns; returns its number."""
        row = self.used
        if row == self.grid.shape[1]:
            self.grid = _grown(self.grid, row + 1)
        self.grid[:, row] = values
        self.used = row + 1
        return row

    def drop(self, row: int) -> None:
        """Take a row out. The last one, `used` afterwards, has its number from now on."""
        self.used -= 1
        self.grid[:, row] = self.grid[:, self.used]

    def column(self, number: int) -> Int64s:
        """A view of one column."""
        return self.grid[number, : self.used]


class Slots:
    """Rows that keep their numbers; what is free is marked by a first column below zero, and is used again."""

    def __init__(self, columns: int) -> None:
        self.grid: Grid = np.full((columns, _LEAST_CAPACITY), -1, dtype=np.int64)
        self._free = list(range(_LEAST_CAPACITY - 1, -1, -1))

    def add(self, rows: Sequence[Sequence[int]]) -> list[int]:
        """Enter some rows, their values in the order of the columns; returns their numbers."""
        if len(self._free) < len(rows):
            before = self.grid.shape[1]
            self.grid = _grown(self.grid, before + len(rows))
            self._free = [*range(self.grid.shape[1] - 1, before - 1, -1), *self._free]
        slots = [self._free.pop() for _ in rows]
        if len(rows) > _FEW:
            self.grid[:, slots] = np.array(rows, dtype=np.int64).T
        else:  # one by one is quicker than to make an array of them
            for slot, row in zip(slots, rows, strict=True):
                self.grid[:, slot] = row
        return slots

    def drop(self, slots: list[int]) -> None:
        self.grid[0, slots] = -1
        self._free.extend(slots)


class Numbers(Generic[Key]):
    """Equal keys share a number while somebody has it. Numbers of keys that nobody has are given out again."""

    def __init__(self) -> None:
        self._of: dict[Key, int] = {}
        self._holders: list[int] = []
        self._free: list[int] = []
        self.keys: list[Key] = []  # by number; of a free one the last key that it had

    def take(self, key: Key, fresh: Callable[[int], None] | None = None) -> int:
        """The key's number; `fresh` is called with one that is new or was free."""
        number = self._of.get(key)
        if number is None:
            if self._free:
                number = self._free.pop()
                self.keys[number] = key
            else:
                number = len(self.keys)
                self.keys.append(key)
                self._holders.append(0)
            self._of[key] = number
            if fresh is not None:
                fresh(number)
        self._holders[number] += 1
        return number

    def give_back(self, number: int) -> bool:
        """Whether nobody has it any more."""
        self._holders[number] -= 1
        if self._holders[number]:
            return False
        del self._of[self.keys[number]]
        self._free.append(number)
        return True


class NodeRows(Generic[Key]):
    """One row over the nodes for each distinct key, made when first read and again when the nodes are other ones."""

    def __init__(self, make: Callable[[Key], npt.NDArray[np.generic]], dtype: npt.DTypeLike) -> None:
        self._make = make
        self._dtype = dtype
        self._numbers: Numbers[Key] = Numbers()
        self._stale: set[int] = set()
        self._shape = -1
        self._rows: npt.NDArray[np.generic] = np.zeros((0, 0), dtype=dtype)

    def take(self, key: Key) -> int:
        return self._numbers.take(key, self._stale.add)

    def give_back(self, number: int) -> None:
        if self._numbers.give_back(number):
            self._stale.discard(number)

    def rows(self, size: int, shape: int) -> npt.NDArray[np.generic]:
        """(numbers, nodes); the rows of free numbers mean nothing. `shape` changes when the nodes do."""
        count = len(self._numbers.keys)
        if shape != self._shape:
            self._rows = np.zeros((count, size), dtype=self._dtype)
            self._stale, self._shape = set(range(count)), shape
        elif count > self._rows.shape[0]:
            grown = np.zeros((max(count, 2 * self._rows.shape[0]), size), dtype=self._dtype)
            grown[: self._rows.shape[0]] = self._rows
            self._rows = grown
        for number in self._stale:
            self._rows[number] = self._make(self._numbers.keys[number])
        self._stale.clear()
        return self._rows


def _grown(grid: Grid, least: int) -> Grid:
    """A copy with room for at least twice as many; new cells are -1."""
    wider = np.full((grid.shape[0], max(least, 2 * grid.shape[1])), -1, dtype=np.int64)
    wider[:, : grid.shape[1]] = grid
    return wider
