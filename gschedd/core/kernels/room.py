"""What is free on a node, now and later."""

from __future__ import annotations

from gschedd.core.kernels.arrays import (
    AHEAD_CORES,
    AHEAD_END,
    AHEAD_GPUS,
    AHEAD_GUARD,
    AHEAD_LINK,
    AHEAD_MEMORY,
    AHEAD_START,
    CLASS_CORES,
    CLASS_GPUS,
    CLASS_MEMORY,
    CLASS_MEMORY_RULE,
    HELD_CORES,
    HELD_END,
    HELD_GPUS,
    HELD_LINK,
    HELD_MEMORY,
    MEMORY_ALL,
    MEMORY_EXACT,
    NODE_AHEAD,
    NODE_CORES,
    NODE_GPUS,
    NODE_HEALTHY,
    NODE_MEMORY,
    NODE_RUNS,
    Classes,
    Grid,
)
from gschedd.core.kernels.bits import popcount_nb
from gschedd.core.kernels.compiled import kernel


@kernel
def memory_need_nb(nodes: Grid, classes: Classes, c: int, n: int) -> int:
    """Memory (MiB) that a member of class c takes on node n; shares are rounded down, so they always add up."""
    rule = classes.columns[CLASS_MEMORY_RULE, c]
    if rule == MEMORY_EXACT:
        return int(classes.columns[CLASS_MEMORY, c])
    if rule == MEMORY_ALL:
        return int(nodes[NODE_MEMORY, n])
    gpus = classes.columns[CLASS_GPUS, c]
    if gpus > 0:
        return int(nodes[NODE_MEMORY, n] * gpus // max(popcount_nb(nodes[NODE_GPUS, n]), 1))
    return int(nodes[NODE_MEMORY, n] * classes.columns[CLASS_CORES, c] // max(nodes[NODE_CORES, n], 1))


@kernel
def running_room_nb(nodes: Grid, held: Grid, n: int, t: int) -> tuple[int, int, int]:
    """(GPU mask, cores, memory) that runs and this pass's starts leave free on node n at instant t."""
    gpus = nodes[NODE_HEALTHY, n]
    cores = nodes[NODE_CORES, n]
    memory = nodes[NODE_MEMORY, n]
    row = nodes[NODE_RUNS, n]
    while row >= 0:
        if held[HELD_END, row] > t:
            gpus &= ~held[HELD_GPUS, row]
            cores -= held[HELD_CORES, row]
            memory -= held[HELD_MEMORY, row]
        row = held[HELD_LINK, row]
    return gpus, cores, memory


@kernel
def room_nb(nodes: Grid, held: Grid, ahead: Grid, n: int, start: int, end: int) -> tuple[int, int, int]:
    """(GPU mask, cores, memory) free on node n through the whole window [start, end), planned starts kept whole.

    Runs only give back, so room is least at `start` and where a planned start begins: those instants are looked at.
    """
    gpus, cores, memory = running_room_nb(nodes, held, n, start)
    outer = nodes[NODE_AHEAD, n]
    while outer >= 0:
        if ahead[AHEAD_GUARD, outer] < end and ahead[AHEAD_END, outer] > start:
            gpus &= ~ahead[AHEAD_GPUS, outer]
            t = max(start, ahead[AHEAD_START, outer])
            _, cores_then, memory_then = running_room_nb(nodes, held, n, t)
            inner = nodes[NODE_AHEAD, n]
            while inner >= 0:
                if ahead[AHEAD_START, inner] <= t and ahead[AHEAD_END, inner] > t:
                    cores_then -= ahead[AHEAD_CORES, inner]
                    memory_then -= ahead[AHEAD_MEMORY, inner]
                inner = ahead[AHEAD_LINK, inner]
            cores = min(cores, cores_then)
            memory = min(memory, memory_then)
        outer = ahead[AHEAD_LINK, outer]
    return gpus, cores, memory
