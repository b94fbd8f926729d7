"""Reservations and claims as rows ahead: entered before the first job is looked at."""

from __future__ import annotations

from typing import Final

from gschedd.core.kernels.ahead import put_ahead_nb
from gschedd.core.kernels.arrays import HELD_END, HELD_LINK, NODE_RUNS, USED_AHEAD, USED_BOOKED, Grid, Int64s
from gschedd.core.kernels.compiled import kernel
from gschedd.core.kernels.events import Line, put_group_nb
from gschedd.core.kernels.room import running_room_nb

# Rows of what is booked: those of one reservation or claim follow one another.
BOOK_NODE: Final = 0
BOOK_START: Final = 1  # -1 = as soon as runs leave the room, and nobody may come before: a claim
BOOK_END: Final = 2
BOOK_CORES: Final = 3
BOOK_MEMORY: Final = 4
BOOK_GPUS: Final = 5  # mask
BOOK_OWNER: Final = 6  # AHEAD_OWNER
BOOK_ROWS: Final = 7


@kernel
def book_nb(nodes: Grid, bits: Grid, held: Grid, ahead: Grid, used: Int64s, line: Line, now: int) -> None:
    """Enter all that is booked."""
    booked = line.booked
    size = booked.shape[1]
    first = used[USED_AHEAD]
    for i in range(size):
        n, start, end, owner = booked[BOOK_NODE, i], booked[BOOK_START, i], booked[BOOK_END, i], booked[BOOK_OWNER, i]
        cores, memory, gpus = booked[BOOK_CORES, i], booked[BOOK_MEMORY, i], booked[BOOK_GPUS, i]
        guard = now if start < 0 else start
        if start < 0:
            start = min(first_room_nb(nodes, held, n, gpus, cores, memory, now), end - 1)
        put_ahead_nb(nodes, bits, ahead, used, n, guard, start, end, cores, memory, gpus, owner)
        if (
            i + 1 == size
            or booked[BOOK_OWNER, i + 1] != owner
            or booked[BOOK_START, i + 1] != booked[BOOK_START, i]
            or booked[BOOK_END, i + 1] != end
        ):
            put_group_nb(nodes, ahead, line, first, used[USED_AHEAD] - first)
            first = used[USED_AHEAD]
    used[USED_BOOKED] = size


@kernel
def first_room_nb(nodes: Grid, held: Grid, n: int, gpus: int, cores: int, memory: int, now: int) -> int:
    """The first instant at which runs leave exactly these GPUs, and so much else, free on node n; `now` if never."""
    best = -1
    t = now
    row = nodes[NODE_RUNS, n]
    while True:
        free, free_cores, free_memory = running_room_nb(nodes, held, n, t)
        if free & gpus == gpus and free_cores >= cores and free_memory >= memory and (best < 0 or t < best):
            best = t
        if row < 0 or best == now:
            break
        t, row = held[HELD_END, row], held[HELD_LINK, row]
    return best if best >= 0 else now
