"""Which nodes: find what fits in a window, choose the domain, share the members out, take the nodes.

The order of candidates: lowest level that holds the job, then the domain with the fewest nodes that fit, then fewest
child domains (fullest child first, the last by best fit), then per node the class of the worst link, best fit, and the
lowest index. Jobs of one GPU or none begin at best fit.
"""

from __future__ import annotations

from gschedd.core.kernels.arrays import (
    AVOIDED,
    CLASS_CORES,
    CLASS_GPU_ROW,
    CLASS_GPUS,
    CLASS_REQUIRED,
    CLASS_ROW,
    MUST,
    NODE_AHEAD,
    NODE_FREE_CORES,
    NODE_FREE_GPUS,
    NODE_FREE_MEMORY,
    NODE_LINKS,
    NODE_UP,
    SCAN_BEFORE,
    SCAN_CHOSEN,
    SCAN_CORES,
    SCAN_FITS,
    SCAN_GPUS,
    SCAN_KEY,
    SCAN_LATE,
    SCAN_MUST,
    SCAN_QUOTA,
    SCAN_QUOTA_ABOVE,
    Classes,
    Grid,
    Links,
    Tree,
)
from gschedd.core.kernels.bits import popcount_nb
from gschedd.core.kernels.compiled import kernel
from gschedd.core.kernels.links import subset_class_nb
from gschedd.core.kernels.room import clear_nb, member_fits_nb, running_room_nb


@kernel
def scan_nb(
    nodes: Grid,
    classes: Classes,
    c: int,
    held: Grid,
    ahead: Grid,
    start: int,
    end: int,
    now: int,
    scan: Grid,
) -> tuple[int, int, int, int]:
    """Find the nodes that hold one member of class c through [start, end); fill `scan`.

    Returns (nodes that fit, required ones among them, nodes that would fit now if nothing were planned, required ones
    among those).
    """
    found = 0
    required = 0
    unplanned = 0
    unplanned_required = 0
    row = classes.columns[CLASS_ROW, c]
    gpu_row = classes.columns[CLASS_GPU_ROW, c]
    need_gpus = classes.columns[CLASS_GPUS, c]
    need_cores = classes.columns[CLASS_CORES, c]
    for n in range(nodes.shape[1]):
        fits = 0
        eligible = classes.eligible[row, n]
        if eligible and not eligible & AVOIDED and nodes[NODE_UP, n]:
            if start == now:
                gpus, cores, memory = nodes[NODE_FREE_GPUS, n], nodes[NODE_FREE_CORES, n], nodes[NODE_FREE_MEMORY, n]
                fits = member_fits_nb(nodes, classes, c, n, gpus, cores, memory)
                unplanned += fits
                unplanned_required += 1 if fits and eligible & MUST else 0
            if nodes[NODE_AHEAD, n] >= 0 or start != now:
                gpus, cores, memory = running_room_nb(nodes, held, n, start)
                gpus, cores, memory = clear_nb(nodes, classes, c, -1, held, ahead, n, start, end, gpus, cores, memory)
                fits = member_fits_nb(nodes, classes, c, n, gpus, cores, memory)
            if fits:
                found += 1
                scan[SCAN_GPUS, n] = gpus & classes.usable[gpu_row, n] if need_gpus else gpus
                scan[SCAN_CORES, n] = cores - need_cores
                required += 1 if eligible & MUST else 0
        scan[SCAN_FITS, n] = fits
        scan[SCAN_LATE, n] = 0
        scan[SCAN_BEFORE, n + 1] = scan[SCAN_BEFORE, n] + fits
        scan[SCAN_MUST, n + 1] = scan[SCAN_MUST, n] + (1 if fits and eligible & MUST else 0)
    return found, required, unplanned, unplanned_required


@kernel
def place_nb(nodes: Grid, tree: Tree, links: Links, classes: Classes, c: int, count: int, scan: Grid) -> None:
    """Mark `count` nodes in `scan.chosen`. The scan has found at least as many, and all required ones."""
    size = nodes.shape[1]
    for n in range(size):
        scan[SCAN_CHOSEN, n] = 0
    late = False
    for n in range(size):
        late = late or scan[SCAN_LATE, n] > 0
    if count == 1 or classes.columns[CLASS_GPUS, c] == 0 or late:
        _take_nodes_nb(nodes, tree, links, classes, c, 0, size, count, scan)
        return
    level, domain = _lowest_domain_nb(tree, classes, c, count, scan)
    for d in range(tree.domains[level]):
        scan[SCAN_QUOTA, d] = 0
    scan[SCAN_QUOTA, domain] = count
    while level > 0:
        _share_out_nb(tree, level, scan)
        level -= 1
    for d in range(tree.domains[0]):
        if scan[SCAN_QUOTA, d] > 0:
            _take_nodes_nb(
                nodes, tree, links, classes, c, tree.first[0, d], tree.first[0, d + 1], scan[SCAN_QUOTA, d], scan
            )


@kernel
def _lowest_domain_nb(tree: Tree, classes: Classes, c: int, count: int, scan: Grid) -> tuple[int, int]:
    """(level, domain): the lowest level with a domain that holds all, and there the one with the fewest that fit."""
    top = tree.domains.shape[0] - 1
    for level in range(top + 1):
        best = -1
        best_found = 0
        for d in range(tree.domains[level]):
            first, end = tree.first[level, d], tree.first[level, d + 1]
            found = scan[SCAN_BEFORE, end] - scan[SCAN_BEFORE, first]
            if found < count or scan[SCAN_MUST, end] - scan[SCAN_MUST, first] < classes.columns[CLASS_REQUIRED, c]:
                continue
            if best < 0 or found < best_found:
                best, best_found = d, found
        if best >= 0:
            return level, best
    return top, 0


@kernel
def _share_out_nb(tree: Tree, level: int, scan: Grid) -> None:
    """Give each domain's quota at `level` to its children: `scan[SCAN_QUOTA, 1]` is read and then holds the children's.

    Required nodes come first; then children already in use, then others; each time the smallest that takes all that is
    left, or else the largest whole.
    """
    for d in range(tree.domains[level]):
        scan[SCAN_QUOTA_ABOVE, d] = scan[SCAN_QUOTA, d]
    for child in range(tree.domains[level - 1]):
        scan[SCAN_QUOTA, child] = 0
    for d in range(tree.domains[level]):
        left = scan[SCAN_QUOTA_ABOVE, d]
        if left == 0:
            continue
        first = tree.domain[level - 1, tree.first[level, d]]
        end = tree.domain[level - 1, tree.first[level, d + 1] - 1] + 1
        for child in range(first, end):
            must = scan[SCAN_MUST, tree.first[level - 1, child + 1]] - scan[SCAN_MUST, tree.first[level - 1, child]]
            scan[SCAN_QUOTA, child] = must
            left -= must
        while left > 0:
            child, spare = _next_child_nb(tree, level - 1, first, end, left, scan)
            taken = min(spare, left)
            scan[SCAN_QUOTA, child] += taken
            left -= taken


@kernel
def _next_child_nb(tree: Tree, level: int, first: int, end: int, left: int, scan: Grid) -> tuple[int, int]:
    """(child domain, nodes it has to spare) to fill next; children in use go before unused ones."""
    best = -1
    best_spare = 0
    for used in (True, False):
        for child in range(first, end):
            if (scan[SCAN_QUOTA, child] > 0) != used:
                continue
            found = scan[SCAN_BEFORE, tree.first[level, child + 1]] - scan[SCAN_BEFORE, tree.first[level, child]]
            spare = found - scan[SCAN_QUOTA, child]
            if spare <= 0:
                continue
            if spare >= left:  # takes all: the smallest such
                better = best < 0 or best_spare < left or spare < best_spare
            else:  # takes what it can: the largest, if none takes all
                better = best < 0 or (best_spare < left and spare > best_spare)
            if better:
                best, best_spare = child, spare
        if best >= 0:
            return best, best_spare
    return best, best_spare


@kernel
def _take_nodes_nb(
    nodes: Grid, tree: Tree, links: Links, classes: Classes, c: int, first: int, end: int, count: int, scan: Grid
) -> None:
    """Choose `count` of the nodes that fit in [first, end): required ones, then by key."""
    rows = 0
    for n in range(first, end):
        if scan[SCAN_FITS, n]:
            scan[SCAN_KEY, rows] = _node_key_nb(nodes, tree, links, classes, c, n, scan)
            rows += 1
    if count == 1:
        least = scan[SCAN_KEY, 0]
        for i in range(1, rows):
            least = min(least, scan[SCAN_KEY, i])
        scan[SCAN_CHOSEN, least & 0xFFFFF] = 1
        return
    scan[SCAN_KEY, :rows].sort()
    for i in range(count):
        scan[SCAN_CHOSEN, scan[SCAN_KEY, i] & 0xFFFFF] = 1


@kernel
def _node_key_nb(nodes: Grid, tree: Tree, links: Links, classes: Classes, c: int, n: int, scan: Grid) -> int:
    """Sort key of a node that fits, smaller is better; bits from the top, each clamped.

    1 not required, 1 late, 6 class of the worst link, 6 GPUs left, 15 cores left, 12 nodes that fit under the same leaf
    switch (large free domains stay whole), 20 index.
    """
    need = classes.columns[CLASS_GPUS, c]
    leaf = tree.domain[0, n]
    around = scan[SCAN_BEFORE, tree.first[0, leaf + 1]] - scan[SCAN_BEFORE, tree.first[0, leaf]]
    key = 0 if classes.eligible[classes.columns[CLASS_ROW, c], n] & MUST else 1
    key = key << 1 | scan[SCAN_LATE, n]
    key = key << 6 | min(subset_class_nb(links, nodes[NODE_LINKS, n], scan[SCAN_GPUS, n], need), 63)
    key = key << 6 | min(popcount_nb(scan[SCAN_GPUS, n]) - need, 63)
    key = key << 15 | min(scan[SCAN_CORES, n], 32767)
    key = key << 12 | min(around, 4095)
    return int(key << 20 | n)
