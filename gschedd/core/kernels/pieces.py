"""Pieces of GPUs: fractions (thousandths and MiB of one GPU) and MIG instances. A member of such a job takes one piece.

A GPU of which a piece is taken is not free for jobs that want it whole, and a whole one is cut only where no cut one
has room: pieces collect on few GPUs. A GPU has fractions or instances, never both. Where nodes hang does not matter to
them. A planned start of such a job keeps a whole GPU: that is safe, and may be later than need be; the job starts
before, in any pass that finds it room.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from gschedd.core.kernels.arrays import (
    BITS_AHEAD,
    BITS_CHOSEN,
    BITS_UP,
    CLASS_CORES,
    CLASS_GPU_ROW,
    CLASS_LEAST,
    CLASS_MOST,
    CLASS_REQUIRED,
    CLASS_ROW,
    FOREVER,
    HELD_CORES,
    HELD_END,
    HELD_GPUS,
    HELD_LINK,
    HELD_MEMORY,
    HELD_NODE,
    HELD_RUN,
    NODE_FREE_CORES,
    NODE_FREE_GPUS,
    NODE_FREE_MEMORY,
    NODE_RUNS,
    SHARE_GPUS,
    SHARE_MEMORY,
    SHARE_NODE,
    USED_HELD,
    USED_SHARES,
    Classes,
    Grid,
    Int64s,
)
from gschedd.core.kernels.bits import ctz_nb, empty_nb, free_now_nb, popcount_nb, put_nb
from gschedd.core.kernels.compiled import kernel
from gschedd.core.kernels.room import clear_nb, member_fits_nb, memory_need_nb
from gschedd.core.kernels.slices import NOT_CUT, PLACE_MODEL, place_slices_nb, slices_key_nb

WHOLE_MILLI: Final = 1000


class Pieces(NamedTuple):
    """What is left of GPUs that are cut, and what classes want of them. Where nobody wants any: one empty cell each."""

    left: Grid  # (nodes, LEFT_GPU + 3 * GPUs)
    wants: Grid  # (WANT_, classes)
    kinds: Grid  # (nodes, GPUs) kind of each GPU: what it is called and how much memory it has
    memories: Int64s  # (kinds,) MiB
    rows: Grid  # (profiles wanted, kinds) row of `places`; NOT_CUT = such a GPU has no such profile
    places: Grid  # (rows, PLACE_COLUMNS), see slices.py
    keeps: Grid  # (models, masks)


# Columns of `left`.
LEFT_CUT: Final = 0  # mask of the GPUs of which pieces are taken
LEFT_GPU: Final = 1  # from here on three for each GPU:
LEFT_MILLI: Final = 0  # free thousandths
LEFT_MIB: Final = 1  # free memory
LEFT_SLICES: Final = 2  # mask of taken slices
LEFT_COLUMNS: Final = 3

# Rows of `wants`.
WANT_KIND: Final = 0
WANT_MILLI: Final = 1
WANT_MIB: Final = 2  # 0 = as many thousandths of the GPU's memory
WANT_PROFILE: Final = 3  # row of `rows`
WANT_ROWS: Final = 4
WHOLE_GPUS: Final = 0  # kinds
FRACTION: Final = 1
INSTANCE: Final = 2

SHARE_SLICES: Final = 4  # row of the shares' grid: an instance's slices
SHARE_ROWS: Final = 5

_NO_ROOM: Final = -1
FIRST_CUT: Final = 1 << 40  # keys from here on are of GPUs that are whole yet


@kernel
def mib_of_nb(pieces: Pieces, c: int, n: int, g: int) -> int:
    """MiB that a fraction takes of GPU g of node n: where none are asked its thousandths, rounded down, to add up."""
    if pieces.wants[WANT_MIB, c]:
        return int(pieces.wants[WANT_MIB, c])
    memory = pieces.memories[pieces.kinds[n, g]]
    return int(memory * pieces.wants[WANT_MILLI, c] // WHOLE_MILLI)


@kernel
def piece_key_nb(pieces: Pieces, c: int, n: int, g: int) -> tuple[int, int]:
    """(sort key of a piece of GPU g of node n, smaller is better; its slices), or (_NO_ROOM, 0).

    GPUs cut already come first; then of fractions the tightest, of instances those that leave the most room for large
    ones (`slices_key_nb`).
    """
    at = LEFT_GPU + LEFT_COLUMNS * g
    milli, slices = pieces.left[n, at + LEFT_MILLI], pieces.left[n, at + LEFT_SLICES]
    if pieces.wants[WANT_KIND, c] == FRACTION:
        left = milli - pieces.wants[WANT_MILLI, c]
        if slices or left < 0 or pieces.left[n, at + LEFT_MIB] < mib_of_nb(pieces, c, n, g):
            return _NO_ROOM, 0
        return (1 if milli == WHOLE_MILLI else 0) * FIRST_CUT + left, 0
    row = pieces.rows[pieces.wants[WANT_PROFILE, c], pieces.kinds[n, g]]
    if row == NOT_CUT or milli < WHOLE_MILLI:
        return _NO_ROOM, 0
    mask = place_slices_nb(pieces.keeps, pieces.places, row, slices)
    if not mask:
        return _NO_ROOM, 0
    return slices_key_nb(pieces.keeps, pieces.places[row, PLACE_MODEL], slices, mask), mask


@kernel
def best_piece_nb(pieces: Pieces, c: int, n: int, gpus: int) -> tuple[int, int, int]:
    """(key, GPU, slices) of the best piece among those GPUs of node n; the lowest of equals; key _NO_ROOM if none."""
    best, best_gpu, best_slices = _NO_ROOM, 0, 0
    while gpus:
        g = ctz_nb(gpus)
        gpus &= gpus - 1
        key, slices = piece_key_nb(pieces, c, n, g)
        if key != _NO_ROOM and (best == _NO_ROOM or key < best):
            best, best_gpu, best_slices = key, g, slices
    return best, best_gpu, best_slices


@kernel
def roomy_nb(pieces: Pieces, c: int, n: int, gpus: int) -> int:
    """Mask of those GPUs of node n that have room for a piece."""
    found = 0
    while gpus:
        g = ctz_nb(gpus)
        gpus &= gpus - 1
        key, _ = piece_key_nb(pieces, c, n, g)
        if key != _NO_ROOM:
            found |= 1 << g
    return found


@kernel
def find_piece_nb(
    nodes: Grid,
    bits: Grid,
    classes: Classes,
    pieces: Pieces,
    c: int,
    j: int,
    held: Grid,
    ahead: Grid,
    now: int,
    end: int,
    must: bool,
) -> tuple[int, int, int, int]:
    """The best node outside BITS_CHOSEN for one member of class c of job j through [now, end).

    must: only of the required nodes. Returns (node or -1, GPU, slices, nodes that have room if nothing were planned).
    Of equal pieces the node with the fewest free GPUs is best, then the fewest free cores, then the lowest.
    """
    best, best_gpu, best_slices, unplanned = -1, 0, 0, 0
    best_key = best_node = 0
    row, gpu_row = classes.columns[CLASS_ROW, c], classes.columns[CLASS_GPU_ROW, c]
    for w in range(bits.shape[1]):
        word = bits[BITS_UP, w] & classes.may[row, w] & ~classes.avoided[row, w] & ~bits[BITS_CHOSEN, w]
        if must:
            word &= classes.must[row, w]
        while word:
            bit = word & -word
            word ^= bit
            n = (w << 6) + ctz_nb(bit)
            if best >= 0 and best_key < FIRST_CUT and not pieces.left[n, LEFT_CUT]:
                continue  # whole GPUs only, and a cut one has room
            gpus = (nodes[NODE_FREE_GPUS, n] | pieces.left[n, LEFT_CUT]) & classes.usable[gpu_row, n]
            gpus = roomy_nb(pieces, c, n, gpus)
            cores, memory = nodes[NODE_FREE_CORES, n], nodes[NODE_FREE_MEMORY, n]
            if not gpus or not member_fits_nb(nodes, classes, c, n, gpus, cores, memory):
                continue
            unplanned += 1
            if bits[BITS_AHEAD, w] & bit:
                gpus, cores, memory = clear_nb(nodes, classes, c, j, held, ahead, n, now, end, gpus, cores, memory)
                if not member_fits_nb(nodes, classes, c, n, gpus, cores, memory):
                    continue
            key, g, slices = best_piece_nb(pieces, c, n, gpus)
            node_key = popcount_nb(nodes[NODE_FREE_GPUS, n]) << 32 | nodes[NODE_FREE_CORES, n]
            if best < 0 or key < best_key or (key == best_key and node_key < best_node):
                best, best_gpu, best_slices, best_key, best_node = n, g, slices, key, node_key
    return best, best_gpu, best_slices, unplanned


@kernel
def start_pieces_nb(
    nodes: Grid,
    bits: Grid,
    classes: Classes,
    pieces: Pieces,
    c: int,
    j: int,
    held: Grid,
    ahead: Grid,
    used: Int64s,
    shares: Grid,
    now: int,
    window_end: int,
    until: int,
) -> tuple[int, int]:
    """Take pieces for the members of class c of job j, each on another node: as many as there are, up to the most.

    More than the least only on what is planned for nobody. Returns (members, nodes with room were nothing planned); of
    too few members nothing is taken.
    """
    empty_nb(bits, BITS_CHOSEN)
    members = unplanned = 0
    for member in range(classes.columns[CLASS_MOST, c]):
        end = window_end if member < classes.columns[CLASS_LEAST, c] else FOREVER
        must = member < classes.columns[CLASS_REQUIRED, c]
        n, g, slices, free = find_piece_nb(nodes, bits, classes, pieces, c, j, held, ahead, now, end, must)
        if member == 0 or n < 0:
            unplanned = member + free
        if n < 0:
            break
        take_piece_nb(nodes, bits, classes, pieces, c, n, g, slices, until, held, used, shares)
        put_nb(bits, BITS_CHOSEN, n)
        members += 1
    if members < classes.columns[CLASS_LEAST, c]:
        for _ in range(members):
            give_piece_back_nb(nodes, bits, pieces, c, held, used, shares)
    return members, unplanned


@kernel
def give_piece_back_nb(nodes: Grid, bits: Grid, pieces: Pieces, c: int, held: Grid, used: Int64s, shares: Grid) -> None:
    """Undo what was taken last, a piece of class c."""
    used[USED_HELD] -= 1
    used[USED_SHARES] -= 1
    row = used[USED_HELD]
    n = held[HELD_NODE, row]
    slices = shares[SHARE_SLICES, used[USED_SHARES]]
    change_piece_nb(nodes, bits, pieces, c, n, ctz_nb(held[HELD_GPUS, row]), slices, -1)
    nodes[NODE_FREE_CORES, n] += held[HELD_CORES, row]
    nodes[NODE_FREE_MEMORY, n] += held[HELD_MEMORY, row]
    nodes[NODE_RUNS, n] = held[HELD_LINK, row]


@kernel
def take_piece_nb(
    nodes: Grid,
    bits: Grid,
    classes: Classes,
    pieces: Pieces,
    c: int,
    n: int,
    g: int,
    slices: int,
    until: int,
    held: Grid,
    used: Int64s,
    shares: Grid,
) -> None:
    """Take a piece of GPU g of node n, its slices those given, with the member's cores and memory."""
    cores, memory = classes.columns[CLASS_CORES, c], memory_need_nb(nodes, classes, c, n)
    change_piece_nb(nodes, bits, pieces, c, n, g, slices, 1)
    nodes[NODE_FREE_CORES, n] -= cores
    nodes[NODE_FREE_MEMORY, n] -= memory
    row = used[USED_HELD]
    used[USED_HELD] = row + 1
    held[HELD_LINK, row], nodes[NODE_RUNS, n] = nodes[NODE_RUNS, n], row
    held[HELD_END, row], held[HELD_RUN, row], held[HELD_NODE, row] = until, -1, n
    held[HELD_CORES, row], held[HELD_MEMORY, row], held[HELD_GPUS, row] = cores, memory, 1 << g
    share = used[USED_SHARES]
    used[USED_SHARES] = share + 1
    shares[SHARE_NODE, share], shares[SHARE_GPUS, share], shares[SHARE_MEMORY, share] = n, 1 << g, memory
    shares[SHARE_SLICES, share] = slices


@kernel
def change_piece_nb(nodes: Grid, bits: Grid, pieces: Pieces, c: int, n: int, g: int, slices: int, sign: int) -> None:
    """Take a piece of GPU g of node n (sign 1) or give it back (sign -1): the GPU is cut, or whole again."""
    at = LEFT_GPU + LEFT_COLUMNS * g
    if pieces.wants[WANT_KIND, c] == FRACTION:
        pieces.left[n, at + LEFT_MILLI] -= sign * pieces.wants[WANT_MILLI, c]
        mib = mib_of_nb(pieces, c, n, g)
        pieces.left[n, at + LEFT_MIB] -= sign * mib
    else:
        pieces.left[n, at + LEFT_SLICES] ^= slices
    free = nodes[NODE_FREE_GPUS, n]
    cut = pieces.left[n, LEFT_CUT]
    if pieces.left[n, at + LEFT_MILLI] == WHOLE_MILLI and not pieces.left[n, at + LEFT_SLICES]:
        nodes[NODE_FREE_GPUS, n], pieces.left[n, LEFT_CUT] = free | 1 << g, cut & ~(1 << g)
    else:
        nodes[NODE_FREE_GPUS, n], pieces.left[n, LEFT_CUT] = free & ~(1 << g), cut | 1 << g
    free_now_nb(bits, n, popcount_nb(free), popcount_nb(nodes[NODE_FREE_GPUS, n]))
