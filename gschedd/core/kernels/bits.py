"""Sets of nodes as bitmaps: rows of int64 words, node n is bit n % 64 of word n // 64.

Nodes are in topology order, so the members of a set under one switch are the bits of one range. Words are signed
because every other array is: numba makes a float of uint64 with int64. The sign is bit 63 and nothing more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt
from llvmlite.ir import Constant, IntType
from numba import types
from numba.core import config
from numba.extending import intrinsic

from gschedd.core.kernels.arrays import BITS_GE, MOST_GE, Grid, Int64s
from gschedd.core.kernels.compiled import inlined, kernel

WORD: Final = 64


def _popcount(_context: Any, _mask: Any) -> Any:
    def generate(_target: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.int64(types.int64), generate


def _ctz(_context: Any, _mask: Any) -> Any:
    def generate(_target: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], Constant(IntType(1), 0))  # 64 for 0: not left undefined

    return types.int64(types.int64), generate


if vars(config)["DISABLE_JIT"]:  # kernels run as plain Python, to be stepped through; words then hold 63 nodes at most
    _popcount_one = cast(Callable[[int], int], lambda mask: int(mask).bit_count())
    _ctz_one = cast(Callable[[int], int], lambda mask: (int(mask) & -int(mask)).bit_length() - 1 if mask else WORD)
else:
    _popcount_one = cast(Callable[[int], int], intrinsic(_popcount))
    _ctz_one = cast(Callable[[int], int], intrinsic(_ctz))


@inlined
def popcount_nb(mask: int) -> int:
    """Number of bits set: one instruction."""
    return _popcount_one(mask)


@inlined
def ctz_nb(mask: int) -> int:
    """Index of the lowest bit set; 64 for 0."""
    return _ctz_one(mask)


@inlined
def has_nb(bits: Grid, row: int, n: int) -> int:
    """1 if node n is in the set, else 0."""
    return int(bits[row, n >> 6] >> (n & 63) & 1)


@inlined
def put_nb(bits: Grid, row: int, n: int) -> None:
    """Put node n into the set."""
    bits[row, n >> 6] |= 1 << (n & 63)


@inlined
def drop_nb(bits: Grid, row: int, n: int) -> None:
    """Take node n out of the set."""
    bits[row, n >> 6] &= ~(1 << (n & 63))


@inlined
def flip_nb(bits: Grid, row: int, n: int) -> None:
    """Put node n into the set, or take it out if it is there."""
    bits[row, n >> 6] ^= 1 << (n & 63)


@kernel
def empty_nb(bits: Grid, row: int) -> None:
    """Take every node out of the set."""
    for w in range(bits.shape[1]):
        bits[row, w] = 0


@inlined
def within_nb(first: int, end: int, w: int) -> int:
    """Bits of word w that stand for nodes in [first, end). The range meets the word."""
    mask = -1
    if first > w << 6:
        mask &= -1 << (first & 63)
    if end < (w + 1) << 6:
        mask &= ~(-1 << (end & 63))
    return mask


@kernel
def count_nb(bits: Grid, row: int, first: int, end: int) -> int:
    """How many nodes of [first, end) are in the set."""
    total = 0
    for w in range(first >> 6, (end + 63) >> 6):
        total += popcount_nb(bits[row, w] & within_nb(first, end, w))
    return total


@kernel
def free_now_nb(bits: Grid, n: int, before: int, after: int) -> None:
    """Note that node n, which had `before` wholly free GPUs, now has `after`."""
    for count in range(min(after, MOST_GE) + 1, min(before, MOST_GE) + 1):
        drop_nb(bits, BITS_GE + count, n)
    for count in range(min(before, MOST_GE) + 1, min(after, MOST_GE) + 1):
        put_nb(bits, BITS_GE + count, n)


def words_of(size: int) -> int:
    """Words of a bitmap of that many nodes."""
    return (size + WORD - 1) // WORD


def pack(flags: npt.NDArray[np.bool_]) -> Int64s:
    """Bitmaps of flags, along the last axis."""
    size = flags.shape[-1]
    wide = np.zeros((*flags.shape[:-1], words_of(size) * 8), dtype=np.uint8)
    packed = np.packbits(flags, axis=-1, bitorder="little")
    wide[..., : packed.shape[-1]] = packed
    return wide.view(np.dtype("<i8")).astype(np.int64, copy=False)


def unpack(words: Int64s, size: int) -> npt.NDArray[np.bool_]:
    """Flags of one bitmap."""
    raw = words.astype(np.dtype("<i8"), copy=False).view(np.uint8)
    return np.unpackbits(raw, count=size, bitorder="little").astype(np.bool_)
