"""Which nodes: find what fits in a window, choose the domain, share the members out, take the nodes.

The order of candidates: lowest level that holds the job, then the domain with the fewest nodes that fit, then fewest
child domains (fullest child first, the last by best fit), then per node the class of the worst link, best fit, and the
lowest index. Jobs of one GPU or none begin at best fit.
"""

from __future__ import annotations

from gschedd.core.kernels.arrays import AVOIDED, MUST, Ahead, ClassArrays, Held, LinkArrays, NodeArrays, Scan
from gschedd.core.kernels.compiled import kernel
from gschedd.core.kernels.links import subset_class_nb
from gschedd.core.kernels.room import memory_need_nb, popcount_nb, room_nb


@kernel
def scan_nb(
    nodes: NodeArrays,
    classes: ClassArrays,
    c: int,
    held: Held,
    ahead: Ahead,
    start: int,
    end: int,
    now: int,
    scan: Scan,
) -> tuple[int, int, int, int]:
    """Find the nodes that hold one member of class c through [start, end); fill `scan`.

    Returns (nodes that fit, required ones among them, nodes that would fit now if nothing were planned, required ones
    among those).
    """
    found = 0
    required = 0
    unplanned = 0
    unplanned_required = 0
    row = classes.row[c]
    gpu_row = classes.gpu_row[c]
    need_gpus = classes.gpus[c]
    need_cores = classes.cores[c]
    for n in range(nodes.up.shape[0]):
        fits = 0
        eligible = classes.eligible[row, n]
        if eligible and not eligible & AVOIDED and nodes.up[n]:
            if start == now:
                gpus, cores, memory = nodes.free_gpus[n], nodes.free_cores[n], nodes.free_memory[n]
                fits = member_fits_nb(nodes, classes, c, n, gpus, cores, memory)
                unplanned += fits
                unplanned_required += 1 if fits and eligible & MUST else 0
            if ahead.head[n] >= 0 or start != now:
                gpus, cores, memory = room_nb(nodes, held, ahead, n, start, end)
                fits = member_fits_nb(nodes, classes, c, n, gpus, cores, memory)
            if fits:
                found += 1
                scan.gpus[n] = gpus & classes.usable[gpu_row, n] if need_gpus else gpus
                scan.cores[n] = cores - need_cores
                required += 1 if eligible & MUST else 0
        scan.fits[n] = fits
        scan.late[n] = 0
        scan.before[n + 1] = scan.before[n] + fits
        scan.must[n + 1] = scan.must[n] + (1 if fits and eligible & MUST else 0)
    return found, required, unplanned, unplanned_required


@kernel
def member_fits_nb(nodes: NodeArrays, classes: ClassArrays, c: int, n: int, gpus: int, cores: int, memory: int) -> int:
    """1 if a member of class c fits in that much of node n, else 0."""
    if cores < classes.cores[c]:
        return 0
    need = classes.gpus[c]
    if need and popcount_nb(gpus & classes.usable[classes.gpu_row[c], n]) < need:
        return 0
    return 1 if memory >= memory_need_nb(nodes, classes, c, n) else 0


@kernel
def place_nb(nodes: NodeArrays, links: LinkArrays, classes: ClassArrays, c: int, count: int, scan: Scan) -> None:
    """Mark `count` nodes in `scan.chosen`. The scan has found at least as many, and all required ones."""
    size = nodes.up.shape[0]
    for n in range(size):
        scan.chosen[n] = 0
    late = False
    for n in range(size):
        late = late or scan.late[n] > 0
    if count == 1 or classes.gpus[c] == 0 or late:
        _take_nodes_nb(nodes, links, classes, c, 0, size, count, scan)
        return
    level, domain = _lowest_domain_nb(nodes, classes, c, count, scan)
    for d in range(nodes.domains[level]):
        scan.quota[1, d] = 0
    scan.quota[1, domain] = count
    while level > 0:
        _share_out_nb(nodes, level, scan)
        level -= 1
    for d in range(nodes.domains[0]):
        if scan.quota[1, d] > 0:
            _take_nodes_nb(nodes, links, classes, c, nodes.first[0, d], nodes.first[0, d + 1], scan.quota[1, d], scan)


@kernel
def _lowest_domain_nb(nodes: NodeArrays, classes: ClassArrays, c: int, count: int, scan: Scan) -> tuple[int, int]:
    """(level, domain): the lowest level with a domain that holds all, and there the one with the fewest that fit."""
    top = nodes.domains.shape[0] - 1
    for level in range(top + 1):
        best = -1
        best_found = 0
        for d in range(nodes.domains[level]):
            first, end = nodes.first[level, d], nodes.first[level, d + 1]
            found = scan.before[end] - scan.before[first]
            if found < count or scan.must[end] - scan.must[first] < classes.required[c]:
                continue
            if best < 0 or found < best_found:
                best, best_found = d, found
        if best >= 0:
            return level, best
    return top, 0


@kernel
def _share_out_nb(nodes: NodeArrays, level: int, scan: Scan) -> None:
    """Give each domain's quota at `level` to its children: `scan.quota[1]` is read and then holds the children's.

    Required nodes come first; then children already in use, then others; each time the smallest that takes all that is
    left, or else the largest whole.
    """
    for d in range(nodes.domains[level]):
        scan.quota[0, d] = scan.quota[1, d]
    for child in range(nodes.domains[level - 1]):
        scan.quota[1, child] = 0
    for d in range(nodes.domains[level]):
        left = scan.quota[0, d]
        if left == 0:
            continue
        first = nodes.domain[level - 1, nodes.first[level, d]]
        end = nodes.domain[level - 1, nodes.first[level, d + 1] - 1] + 1
        for child in range(first, end):
            must = scan.must[nodes.first[level - 1, child + 1]] - scan.must[nodes.first[level - 1, child]]
            scan.quota[1, child] = must
            left -= must
        while left > 0:
            child, spare = _next_child_nb(nodes, level - 1, first, end, left, scan)
            taken = min(spare, left)
            scan.quota[1, child] += taken
            left -= taken


@kernel
def _next_child_nb(nodes: NodeArrays, level: int, first: int, end: int, left: int, scan: Scan) -> tuple[int, int]:
    """(child domain, nodes it has to spare) to fill next; children in use go before unused ones."""
    best = -1
    best_spare = 0
    for used in (True, False):
        for child in range(first, end):
            if (scan.quota[1, child] > 0) != used:
                continue
            found = scan.before[nodes.first[level, child + 1]] - scan.before[nodes.first[level, child]]
            spare = found - scan.quota[1, child]
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
    nodes: NodeArrays, links: LinkArrays, classes: ClassArrays, c: int, first: int, end: int, count: int, scan: Scan
) -> None:
    """Choose `count` of the nodes that fit in [first, end): required ones, then by key."""
    rows = 0
    for n in range(first, end):
        if scan.fits[n]:
            scan.key[rows] = _node_key_nb(nodes, links, classes, c, n, scan)
            rows += 1
    if count == 1:
        least = scan.key[0]
        for i in range(1, rows):
            least = min(least, scan.key[i])
        scan.chosen[least & 0xFFFFF] = 1
        return
    scan.key[:rows].sort()
    for i in range(count):
        scan.chosen[scan.key[i] & 0xFFFFF] = 1


@kernel
def _node_key_nb(nodes: NodeArrays, links: LinkArrays, classes: ClassArrays, c: int, n: int, scan: Scan) -> int:
    """Sort key of a node that fits, smaller is better; bits from the top, each clamped.

    1 not required, 1 late, 6 class of the worst link, 6 GPUs left, 15 cores left, 12 nodes that fit under the same leaf
    switch (large free domains stay whole), 20 index.
    """
    need = classes.gpus[c]
    leaf = nodes.domain[0, n]
    around = scan.before[nodes.first[0, leaf + 1]] - scan.before[nodes.first[0, leaf]]
    key = 0 if classes.eligible[classes.row[c], n] & MUST else 1
    key = key << 1 | scan.late[n]
    key = key << 6 | min(subset_class_nb(links, nodes.links[n], scan.gpus[n], need), 63)
    key = key << 6 | min(popcount_nb(scan.gpus[n]) - need, 63)
    key = key << 15 | min(scan.cores[n], 32767)
    key = key << 12 | min(around, 4095)
    return int(key << 20 | n)
