"""Plain twins of the kernels of `links.py`, by trying every subset."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from gschedd.core.kernels.arrays import LINK_OFFSET, Links


def subsets_py(mask: int, count: int) -> list[int]:
    """Every subset of `count` bits of a mask."""
    bits = [i for i in range(mask.bit_length()) if mask >> i & 1]
    return [sum(1 << i for i in chosen) for chosen in combinations(bits, count)]


def worst_py(matrix: Sequence[Sequence[int]], mask: int) -> int:
    """Class of the worst link inside a subset; 0 for fewer than two GPUs."""
    bits = [i for i in range(mask.bit_length()) if mask >> i & 1]
    return max((matrix[a][b] for a, b in combinations(bits, 2)), default=0)


def best_py(matrix: Sequence[Sequence[int]], mask: int, count: int) -> int:
    """Class of the best subset of `count` GPUs within a mask; 0 if the mask has too few."""
    return min((worst_py(matrix, sub) for sub in subsets_py(mask, count)), default=0)


def rest_py(matrix: Sequence[Sequence[int]], mask: int) -> int:
    """How good what is left would be: the best classes of every size, added up."""
    return sum(best_py(matrix, mask, count) for count in range(2, mask.bit_count() + 1))


def best_class_py(links: Links, kind: int, mask: int, count: int) -> int:
    """Class of the worst link in the best subset; 0 where links do not matter."""
    offset = int(links.kinds[LINK_OFFSET, kind])
    if count < 2 or offset < 0:
        return 0
    return min(int(links.worst[offset + sub]) for sub in subsets_py(mask, count))


def subset_py(links: Links, kind: int, mask: int, count: int) -> int:
    """The subset to take: least (worst link, what is left, mask)."""
    offset = int(links.kinds[LINK_OFFSET, kind])
    if offset < 0:
        return min(subsets_py(mask, count), default=0)
    return min(
        subsets_py(mask, count),
        key=lambda sub: (int(links.worst[offset + sub]), int(links.rest[offset + (mask & ~sub)]), sub),
    )
