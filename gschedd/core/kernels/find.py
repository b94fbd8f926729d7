"""Which nodes hold one member of a class from now on, as a bitmap; for a job of one node, the best of them.

Counts of free GPUs give the candidates a word at a time; only their bits are looked at one by one.
"""

from __future__ import annotations

from gschedd.core.kernels.arrays import (
    BITS_AHEAD,
    BITS_FITS,
    BITS_GE,
    BITS_LATE,
    BITS_UNPLANNED,
    BITS_UP,
    CLASS_CORES,
    CLASS_GPU_ROW,
    CLASS_GPUS,
    CLASS_REQUIRED,
    CLASS_ROW,
    LINK_BEST_OFFSET,
    LINK_GPUS,
    LINK_OFFSET,
    MOST_GE,
    NODE_FREE_CORES,
    NODE_FREE_GPUS,
    NODE_FREE_MEMORY,
    NODE_LINKS,
    SCAN_CORES,
    SCAN_GPUS,
    SCAN_LEFT,
    Classes,
    Grid,
    Links,
    Tree,
)
from gschedd.core.kernels.bits import ctz_nb, popcount_nb, within_nb
from gschedd.core.kernels.compiled import kernel
from gschedd.core.kernels.links import subset_class_nb
from gschedd.core.kernels.room import clear_nb, member_fits_nb


@kernel
def candidates_nb(bits: Grid, classes: Classes, c: int, count: int, w: int) -> int:
    """Word w of the nodes that may take something new of class c and have at least `count` wholly free GPUs."""
    row = classes.columns[CLASS_ROW, c]
    word = bits[BITS_GE + min(count, MOST_GE), w] & bits[BITS_UP, w]
    return int(word & classes.may[row, w] & ~classes.avoided[row, w])


@kernel
def find_nb(
    nodes: Grid, bits: Grid, classes: Classes, c: int, j: int, held: Grid, ahead: Grid, now: int, end: int, scan: Grid
) -> tuple[int, int]:
    """Find the nodes that hold one member of class c through [now, end) for job j: BITS_FITS, and `scan` for those.

    Returns (nodes that fit, nodes that would fit if nothing were planned: BITS_UNPLANNED). BITS_LATE is emptied.
    """
    found = unplanned = 0
    need = classes.columns[CLASS_GPUS, c]
    for w in range(bits.shape[1]):
        word = candidates_nb(bits, classes, c, need, w)
        fits = free = 0
        while word:
            bit = word & -word
            word ^= bit
            n = (w << 6) + ctz_nb(bit)
            gpus, cores, memory = nodes[NODE_FREE_GPUS, n], nodes[NODE_FREE_CORES, n], nodes[NODE_FREE_MEMORY, n]
            if not member_fits_nb(nodes, classes, c, n, gpus, cores, memory):
                continue
            free |= bit
            left = popcount_nb(gpus) - need, cores - classes.columns[CLASS_CORES, c]
            if bits[BITS_AHEAD, w] & bit:
                gpus, cores, memory = clear_nb(nodes, classes, c, j, held, ahead, n, now, end, gpus, cores, memory)
                if not member_fits_nb(nodes, classes, c, n, gpus, cores, memory):
                    continue
            fits |= bit
            scan[SCAN_GPUS, n] = gpus & classes.usable[classes.columns[CLASS_GPU_ROW, c], n]
            scan[SCAN_LEFT, n], scan[SCAN_CORES, n] = left
        bits[BITS_FITS, w], bits[BITS_UNPLANNED, w], bits[BITS_LATE, w] = fits, free, 0
        found += popcount_nb(fits)
        unplanned += popcount_nb(free)
    return found, unplanned


@kernel
def find_one_nb(
    nodes: Grid,
    bits: Grid,
    tree: Tree,
    links: Links,
    classes: Classes,
    c: int,
    j: int,
    held: Grid,
    ahead: Grid,
    now: int,
    end: int,
    scan: Grid,
) -> int:
    """The best node for job j of one node, as `place.node_key_nb` orders them; -1 if none holds it through [now, end).

    Nodes are taken by rising number of free GPUs: once the best links there are have been found, fuller nodes than the
    best are not there any more, so the rest is not looked at. Sets `scan[SCAN_GPUS]` of the node.
    """
    need, cores_need = classes.columns[CLASS_GPUS, c], classes.columns[CLASS_CORES, c]
    row, gpu_row = classes.columns[CLASS_ROW, c], classes.columns[CLASS_GPU_ROW, c]
    floor, most = best_links_nb(links, need)
    best = -1
    best_key = 0
    for count in range(min(need, MOST_GE), min(most, MOST_GE) + 1):
        if best >= 0 and best_key >> 53 <= floor:
            break
        for w in range(bits.shape[1]):
            word = candidates_nb(bits, classes, c, count, w)
            if count < MOST_GE:
                word &= ~bits[BITS_GE + count + 1, w]
            if classes.columns[CLASS_REQUIRED, c]:
                word &= classes.must[row, w]
            while word:
                bit = word & -word
                word ^= bit
                n = (w << 6) + ctz_nb(bit)
                gpus, cores, memory = nodes[NODE_FREE_GPUS, n], nodes[NODE_FREE_CORES, n], nodes[NODE_FREE_MEMORY, n]
                left, cores_left = popcount_nb(gpus) - need, cores - cores_need
                if best >= 0 and one_key_nb(floor, left, cores_left, 0, 0) > best_key:
                    continue
                if not member_fits_nb(nodes, classes, c, n, gpus, cores, memory):
                    continue
                if bits[BITS_AHEAD, w] & bit:
                    gpus, cores, memory = clear_nb(nodes, classes, c, j, held, ahead, n, now, end, gpus, cores, memory)
                    if not member_fits_nb(nodes, classes, c, n, gpus, cores, memory):
                        continue
                gpus &= classes.usable[gpu_row, n]
                worst = subset_class_nb(links, nodes[NODE_LINKS, n], gpus, need)
                key = one_key_nb(worst, left, cores_left, _around_nb(bits, tree, classes, c, n), n)
                if best < 0 or key < best_key:
                    best, best_key = n, key
                    scan[SCAN_GPUS, n] = gpus
    return best


@kernel
def one_key_nb(worst: int, left: int, cores: int, around: int, n: int) -> int:
    """Sort key of a node that fits, smaller is better; bits from the top, each clamped.

    6 class of the worst link, 6 free GPUs left, 15 cores left, 12 nodes that could hold one more under the same leaf
    switch (large free domains stay whole), 20 index.
    """
    return int(
        ((((min(worst, 63) << 6 | min(left, 63)) << 15) | min(cores, 32767)) << 12 | min(around, 4095)) << 20 | n
    )


@kernel
def _around_nb(bits: Grid, tree: Tree, classes: Classes, c: int, n: int) -> int:
    """How many nodes under the same leaf switch may take class c and have GPUs enough."""
    leaf = tree.domain[0, n]
    first, end = tree.first[0, leaf], tree.first[0, leaf + 1]
    total = 0
    for w in range(first >> 6, (end + 63) >> 6):
        total += popcount_nb(
            candidates_nb(bits, classes, c, classes.columns[CLASS_GPUS, c], w) & within_nb(first, end, w)
        )
    return total


@kernel
def best_links_nb(links: Links, count: int) -> tuple[int, int]:
    """(class of the worst link of `count` GPUs at best, most GPUs that a node has) over all kinds of node."""
    best = 63
    most = 0
    for kind in range(links.kinds.shape[1]):
        gpus = links.kinds[LINK_GPUS, kind]
        most = max(most, gpus)
        if count < 2 or links.kinds[LINK_OFFSET, kind] < 0:
            best = 0
        elif gpus >= count:
            full = (1 << gpus) - 1
            best = min(best, links.best[links.kinds[LINK_BEST_OFFSET, kind] + full * (gpus + 1) + count])
    return best, most
