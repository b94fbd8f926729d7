"""What is free on a node, now and later."""

from __future__ import annotations

from gschedd.core.kernels.arrays import MEMORY_ALL, MEMORY_EXACT, Ahead, ClassArrays, Held, NodeArrays
from gschedd.core.kernels.compiled import kernel


@kernel
def popcount_nb(mask: int) -> int:
    """Number of bits set in a mask of up to 62 bits."""
    count = 0
    while mask != 0:
        mask &= mask - 1
        count += 1
    return count


@kernel
def memory_need_nb(nodes: NodeArrays, classes: ClassArrays, c: int, n: int) -> int:
    """Memory (MiB) that a member of class c takes on node n; shares are rounded down, so they always add up."""
    rule = classes.memory_rule[c]
    if rule == MEMORY_EXACT:
        return int(classes.memory[c])
    if rule == MEMORY_ALL:
        return int(nodes.memory[n])
    gpus = classes.gpus[c]
    if gpus > 0:
        return int(nodes.memory[n] * gpus // max(popcount_nb(nodes.gpus[n]), 1))
    return int(nodes.memory[n] * classes.cores[c] // max(nodes.cores[n], 1))


@kernel
def running_room_nb(nodes: NodeArrays, held: Held, n: int, t: int) -> tuple[int, int, int]:
    """(GPU mask, cores, memory) that runs and this pass's starts leave free on node n at instant t."""
    gpus = nodes.healthy[n]
    cores = nodes.cores[n]
    memory = nodes.memory[n]
    row = held.head[n]
    while row >= 0:
        if held.end[row] > t:
            gpus &= ~held.gpus[row]
            cores -= held.cores[row]
            memory -= held.memory[row]
        row = held.link[row]
    return gpus, cores, memory


@kernel
def room_nb(nodes: NodeArrays, held: Held, ahead: Ahead, n: int, start: int, end: int) -> tuple[int, int, int]:
    """(GPU mask, cores, memory) free on node n through the whole window [start, end), planned starts kept whole.

    Runs only give back, so room is least at `start` and where a planned start begins: those instants are looked at.
    """
    gpus, cores, memory = running_room_nb(nodes, held, n, start)
    outer = ahead.head[n]
    while outer >= 0:
        if ahead.guard[outer] < end and ahead.end[outer] > start:
            gpus &= ~ahead.gpus[outer]
            t = max(start, ahead.start[outer])
            _, cores_then, memory_then = running_room_nb(nodes, held, n, t)
            inner = ahead.head[n]
            while inner >= 0:
                if ahead.start[inner] <= t and ahead.end[inner] > t:
                    cores_then -= ahead.cores[inner]
                    memory_then -= ahead.memory[inner]
                inner = ahead.link[inner]
            cores = min(cores, cores_then)
            memory = min(memory, memory_then)
        outer = ahead.link[outer]
    return gpus, cores, memory
