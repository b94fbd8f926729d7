"""What a start takes of its nodes, and how it is given back when the rest of the job does not fit."""

from __future__ import annotations

from gschedd.core.kernels.arrays import (
    BITS_CHOSEN,
    CLASS_CORES,
    CLASS_GPUS,
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
    NODE_LINKS,
    NODE_RUNS,
    SCAN_GPUS,
    SHARE_CLASS,
    SHARE_GPUS,
    SHARE_MEMORY,
    SHARE_NODE,
    USED_HELD,
    USED_SHARES,
    Classes,
    Grid,
    Int64s,
    Links,
)
from gschedd.core.kernels.bits import ctz_nb, free_now_nb, popcount_nb
from gschedd.core.kernels.compiled import kernel
from gschedd.core.kernels.links import subset_nb
from gschedd.core.kernels.room import memory_need_nb


@kernel
def take_chosen_nb(
    nodes: Grid,
    bits: Grid,
    links: Links,
    classes: Classes,
    c: int,
    end: int,
    held: Grid,
    used: Int64s,
    scan: Grid,
    shares: Grid,
) -> None:
    """Give a member of class c each node of BITS_CHOSEN until `end`, in topology order: that is the order of ranks."""
    for w in range(bits.shape[1]):
        word = bits[BITS_CHOSEN, w]
        while word:
            n = (w << 6) + ctz_nb(word)
            word &= word - 1
            take_one_nb(nodes, bits, links, classes, c, n, end, held, used, scan, shares)


@kernel
def take_one_nb(
    nodes: Grid,
    bits: Grid,
    links: Links,
    classes: Classes,
    c: int,
    n: int,
    end: int,
    held: Grid,
    used: Int64s,
    scan: Grid,
    shares: Grid,
) -> None:
    """Give a member of class c its part of node n, of the GPUs in `scan`."""
    cores, memory = classes.columns[CLASS_CORES, c], memory_need_nb(nodes, classes, c, n)
    gpus = subset_nb(links, nodes[NODE_LINKS, n], scan[SCAN_GPUS, n], classes.columns[CLASS_GPUS, c])
    _change_room_nb(nodes, bits, n, nodes[NODE_FREE_GPUS, n] & ~gpus, -cores, -memory)
    row = used[USED_HELD]
    used[USED_HELD] = row + 1
    held[HELD_LINK, row], nodes[NODE_RUNS, n] = nodes[NODE_RUNS, n], row
    held[HELD_END, row], held[HELD_RUN, row], held[HELD_NODE, row] = end, -1, n
    held[HELD_CORES, row], held[HELD_MEMORY, row], held[HELD_GPUS, row] = cores, memory, gpus
    share = used[USED_SHARES]
    used[USED_SHARES] = share + 1
    shares[SHARE_NODE, share], shares[SHARE_GPUS, share], shares[SHARE_MEMORY, share] = n, gpus, memory
    shares[SHARE_CLASS, share] = c


@kernel
def give_back_nb(nodes: Grid, bits: Grid, held: Grid, used: Int64s, first: int) -> None:
    """Undo all that was taken since `used` counted `first` shares."""
    for _ in range(used[USED_SHARES] - first):
        row = used[USED_HELD] - 1
        n = held[HELD_NODE, row]
        gpus = nodes[NODE_FREE_GPUS, n] | held[HELD_GPUS, row]
        _change_room_nb(nodes, bits, n, gpus, held[HELD_CORES, row], held[HELD_MEMORY, row])
        nodes[NODE_RUNS, n] = held[HELD_LINK, row]
        used[USED_HELD] = row
    used[USED_SHARES] = first


@kernel
def _change_room_nb(nodes: Grid, bits: Grid, n: int, gpus: int, cores: int, memory: int) -> None:
    """Node n now has these GPUs free, and so much more of cores and memory."""
    free_now_nb(bits, n, popcount_nb(nodes[NODE_FREE_GPUS, n]), popcount_nb(gpus))
    nodes[NODE_FREE_GPUS, n] = gpus
    nodes[NODE_FREE_CORES, n] += cores
    nodes[NODE_FREE_MEMORY, n] += memory
