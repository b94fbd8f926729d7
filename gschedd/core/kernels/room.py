"""What is free on a node, now and later."""

from __future__ import annotations

from gschedd.core.kernels.arrays import (
    AHEAD_CORES,
    AHEAD_END,
    AHEAD_GPUS,
    AHEAD_GUARD,
    AHEAD_LINK,
    AHEAD_MEMORY,
    AHEAD_OWNER,
    AHEAD_START,
    CLASS_CORES,
    CLASS_GPU_ROW,
    CLASS_GPUS,
    CLASS_MEMORY,
    CLASS_MEMORY_RULE,
    CLASS_OWN,
    HELD_CORES,
    HELD_END,
    HELD_GPUS,
    HELD_LINK,
    HELD_MEMORY,
    MEMORY_ALL,
    MEMORY_EXACT,
    NODE_AHEAD,
    NODE_AHEAD_CORES,
    NODE_AHEAD_GPUS,
    NODE_AHEAD_GUARD,
    NODE_AHEAD_LAST,
    NODE_AHEAD_MEMORY,
    NODE_CORES,
    NODE_GPUS,
    NODE_HEALTHY,
    NODE_MEMORY,
    NODE_RUNS,
    Classes,
    Grid,
)
from gschedd.core.kernels.bits import popcount_nb
from gschedd.core.kernels.compiled import inlined, kernel


@inlined
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


@inlined
def member_fits_nb(nodes: Grid, classes: Classes, c: int, n: int, gpus: int, cores: int, memory: int) -> int:
    """1 if a member of class c fits in that much of node n, else 0."""
    if cores < classes.columns[CLASS_CORES, c]:
        return 0
    need = classes.columns[CLASS_GPUS, c]
    if need and popcount_nb(gpus & classes.usable[classes.columns[CLASS_GPU_ROW, c], n]) < need:
        return 0
    return 1 if memory >= memory_need_nb(nodes, classes, c, n) else 0


@inlined
def clear_nb(
    nodes: Grid,
    classes: Classes,
    c: int,
    j: int,
    held: Grid,
    ahead: Grid,
    n: int,
    start: int,
    end: int,
    gpus: int,
    cores: int,
    memory: int,
) -> tuple[int, int, int]:
    """(GPU mask, cores, memory) that job j of class c may use of node n through [start, end), rows ahead kept whole.

    gpus, cores, memory: what runs leave free at `start`. All of it where no row is met; else what no row ever claims,
    if a member fits there; else what is free through this window exactly, or nothing if no member fits there either.
    """
    if end <= nodes[NODE_AHEAD_GUARD, n] or start >= nodes[NODE_AHEAD_LAST, n]:
        return gpus, cores, memory
    certain = gpus & ~nodes[NODE_AHEAD_GPUS, n]
    certain_cores = cores - nodes[NODE_AHEAD_CORES, n]
    certain_memory = memory - nodes[NODE_AHEAD_MEMORY, n]
    if member_fits_nb(nodes, classes, c, n, certain, certain_cores, certain_memory):
        return certain, certain_cores, certain_memory
    own = classes.columns[CLASS_OWN, c]
    gpus = _unclaimed_nb(nodes, ahead, n, start, end, j, own, gpus)
    if not member_fits_nb(nodes, classes, c, n, gpus, cores, memory):
        return 0, 0, 0  # the rest would not help
    cores, memory = _left_nb(nodes, held, ahead, n, start, end, j, own, cores, memory)
    return gpus, cores, memory


@inlined
def _unclaimed_nb(nodes: Grid, ahead: Grid, n: int, start: int, end: int, j: int, own: int, gpus: int) -> int:
    """Those of the GPUs that no row of others takes within [start, end)."""
    row = nodes[NODE_AHEAD, n]
    while row >= 0:
        met = ahead[AHEAD_GUARD, row] < end and ahead[AHEAD_END, row] > start
        if met and not owned_nb(ahead, row, j, own):
            gpus &= ~ahead[AHEAD_GPUS, row]
        row = ahead[AHEAD_LINK, row]
    return gpus


@kernel
def _left_nb(
    nodes: Grid, held: Grid, ahead: Grid, n: int, start: int, end: int, j: int, own: int, cores: int, memory: int
) -> tuple[int, int]:
    """What is left of (cores, memory), free on node n at `start`, through [start, end) beside the rows of others.

    Runs only give back, so room is least at `start` and where a row begins: those instants are looked at.
    """
    outer = nodes[NODE_AHEAD, n]
    while outer >= 0:
        met = ahead[AHEAD_GUARD, outer] < end and ahead[AHEAD_END, outer] > start
        if met and not owned_nb(ahead, outer, j, own):
            t = max(start, ahead[AHEAD_START, outer])
            _, cores_then, memory_then = running_room_nb(nodes, held, n, t)
            inner = nodes[NODE_AHEAD, n]
            while inner >= 0:
                on = ahead[AHEAD_START, inner] <= t and ahead[AHEAD_END, inner] > t
                if on and not owned_nb(ahead, inner, j, own):
                    cores_then -= ahead[AHEAD_CORES, inner]
                    memory_then -= ahead[AHEAD_MEMORY, inner]
                inner = ahead[AHEAD_LINK, inner]
            cores = min(cores, cores_then)
            memory = min(memory, memory_then)
        outer = ahead[AHEAD_LINK, outer]
    return cores, memory


@inlined
def owned_nb(ahead: Grid, row: int, j: int, own: int) -> bool:
    """Whether a row ahead does not stand in the way of job j: of its claim, or of its reservation `own` (-1 = none).

    To nobody's job, j = -1, only the rows of other reservations are left.
    """
    owner = ahead[AHEAD_OWNER, row]
    if j < 0:
        return bool(owner >= -1 or owner == own)
    return bool(owner != -1 and owner in (j, own))
