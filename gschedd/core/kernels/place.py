"""Which of the nodes that fit: choose the domain, share the members out, take the nodes.

The order of candidates: lowest level that holds the job, then the domain that needs the fewest child domains, then the
one with the fewest nodes that fit (inside it the fullest child first, the last by best fit), then per node the class
of the worst link, best fit, and the lowest index. Jobs without GPUs, and those to which the topology does not matter,
begin at best fit.
"""

from __future__ import annotations

from gschedd.core.kernels.arrays import (
    BINDS_SWITCHES,
    BITS_CHOSEN,
    BITS_FITS,
    BITS_LATE,
    CLASS_ANYWHERE,
    CLASS_GPUS,
    CLASS_LEVEL,
    CLASS_PREFER,
    CLASS_REQUIRED,
    CLASS_ROW,
    CLASS_SEGMENT,
    CLASS_SWITCHES,
    NODE_LINKS,
    QUEUE_BINDS,
    SCAN_CORES,
    SCAN_GPUS,
    SCAN_KEY,
    SCAN_LEFT,
    TALLY_FITS,
    TALLY_MUST,
    TALLY_QUOTA,
    Classes,
    Grid,
    Links,
    Tally,
    Tree,
)
from gschedd.core.kernels.bits import count_nb, ctz_nb, empty_nb, popcount_nb, put_nb, within_nb
from gschedd.core.kernels.compiled import kernel
from gschedd.core.kernels.find import one_key_nb
from gschedd.core.kernels.links import subset_class_nb
from gschedd.core.kernels.select import least_first_nb


@kernel
def memo_row_nb(classes: Classes, memo: Grid, queue: Grid, j: int, c: int) -> int:
    """Where what is known of class c stands; apart for jobs that some rule does not bind any more, if any are."""
    if memo.shape[1] == classes.columns.shape[1]:
        return c
    return int(queue[QUEUE_BINDS, j] * classes.columns.shape[1] + c)


@kernel
def bounds_nb(classes: Classes, queue: Grid, j: int, c: int) -> tuple[int, int]:
    """(highest level that job j may cross as class c, most leaf switches; 0 = any number)."""
    binds = queue[QUEUE_BINDS, j]
    ceiling, switches = classes.columns[CLASS_LEVEL, c], 0
    if binds & BINDS_SWITCHES:
        switches = classes.columns[CLASS_SWITCHES, c]
    return ceiling, switches


@kernel
def tally_nb(bits: Grid, row: int, tree: Tree, classes: Classes, c: int, tally: Tally) -> None:
    """Count, for every domain, the members that its nodes in the set `row` can take, and the required ones there.

    With segments a leaf switch counts whole ones only; one where the required nodes would not fit then is out.
    """
    segment = classes.columns[CLASS_SEGMENT, c]
    required = classes.columns[CLASS_REQUIRED, c]
    for leaf in range(tree.domains[0]):
        first, end = tree.first[0, leaf], tree.first[0, leaf + 1]
        found = count_nb(bits, row, first, end)
        must = _required_nb(bits, row, classes, c, first, end) if required else 0
        if segment > 1:
            found -= found % segment
            must += -must % segment
            if must > found:
                found = -tree.domain.shape[1]
        tally[TALLY_FITS, 0, leaf], tally[TALLY_MUST, 0, leaf] = found, must
    for level in range(1, tree.domains.shape[0]):
        for d in range(tree.domains[level]):
            tally[TALLY_FITS, level, d] = tally[TALLY_MUST, level, d] = 0
        for child in range(tree.domains[level - 1]):
            d = tree.domain[level, tree.first[level - 1, child]]
            tally[TALLY_FITS, level, d] += tally[TALLY_FITS, level - 1, child]
            tally[TALLY_MUST, level, d] += tally[TALLY_MUST, level - 1, child]


@kernel
def _required_nb(bits: Grid, row: int, classes: Classes, c: int, first: int, end: int) -> int:
    """How many of the class's required nodes of [first, end) are in the set."""
    total = 0
    for w in range(first >> 6, (end + 63) >> 6):
        here = bits[row, w] & classes.must[classes.columns[CLASS_ROW, c], w]
        total += popcount_nb(here & within_nb(first, end, w))
    return total


@kernel
def capacity_nb(
    bits: Grid, row: int, tree: Tree, classes: Classes, c: int, ceiling: int, switches: int, tally: Tally
) -> int:
    """The most members that the nodes in the set `row` can take together; 0 if required ones are not among them.

    ceiling: the highest level that the job may cross; switches: most leaf switches, 0 = any number. Fills `tally`.
    """
    top = tree.domains.shape[0] - 1
    required = classes.columns[CLASS_REQUIRED, c]
    if required and _required_nb(bits, row, classes, c, 0, tree.domain.shape[1]) < required:
        return 0
    tally_nb(bits, row, tree, classes, c, tally)
    most = 0
    for d in range(tree.domains[ceiling]):
        if tally[TALLY_MUST, ceiling, d] == tally[TALLY_MUST, top, 0]:
            most = max(most, _members_nb(tree, ceiling, d, switches, tally))
    return most if most >= tally[TALLY_MUST, top, 0] else 0


@kernel
def _members_nb(tree: Tree, level: int, d: int, switches: int, tally: Tally) -> int:
    """The most members that a domain takes on so many leaf switches (0 = any number)."""
    if not switches:
        return int(tally[TALLY_FITS, level, d])
    first, end = children_nb(tree, level, d, 0)
    total = 0
    for leaf in range(first, end):
        tally[TALLY_QUOTA, 0, leaf] = 0  # 1 = counted
        if tally[TALLY_MUST, 0, leaf]:
            tally[TALLY_QUOTA, 0, leaf] = 1
            total += tally[TALLY_FITS, 0, leaf]
            switches -= 1
    if switches < 0:
        return 0
    for _ in range(switches):
        best = -1
        for leaf in range(first, end):
            if not tally[TALLY_QUOTA, 0, leaf] and (
                best < 0 or tally[TALLY_FITS, 0, leaf] > tally[TALLY_FITS, 0, best]
            ):
                best = leaf
        if best < 0:
            break
        tally[TALLY_QUOTA, 0, best] = 1
        total += max(tally[TALLY_FITS, 0, best], 0)
    return total


@kernel
def children_nb(tree: Tree, level: int, d: int, below: int) -> tuple[int, int]:
    """(first, end) of the domains at the level `below` that lie in domain d of `level`."""
    first, end = tree.first[level, d], tree.first[level, d + 1]
    return tree.domain[below, first], tree.domain[below, end - 1] + 1


@kernel
def place_nb(
    nodes: Grid,
    bits: Grid,
    tree: Tree,
    links: Links,
    classes: Classes,
    c: int,
    count: int,
    ceiling: int,
    switches: int,
    tally: Tally,
    scan: Grid,
) -> int:
    """Put `count` of the nodes of BITS_FITS into BITS_CHOSEN. Returns the level crossed, or -1 if no set will do.

    `scan` holds their usable GPUs, and what is left there. ceiling and switches are as in `capacity_nb`.
    Where rooms that come only SOMEDAY are among them (BITS_LATE), soonest goes before topology.
    """
    empty_nb(bits, BITS_CHOSEN)
    if capacity_nb(bits, int(BITS_FITS), tree, classes, c, ceiling, switches, tally) < count:
        return -1
    late = False
    for w in range(bits.shape[1]):
        late = late or bits[BITS_LATE, w] != 0
    lowest = classes.columns[CLASS_PREFER, c]
    if count == 1 or classes.columns[CLASS_ANYWHERE, c] or not classes.columns[CLASS_GPUS, c] or late:
        lowest = ceiling
    level, domain = _lowest_domain_nb(tree, count, min(lowest, ceiling), ceiling, switches, tally)
    if level < 0:
        return -1
    tally[TALLY_QUOTA, level, domain] = count
    at = level
    if switches or classes.columns[CLASS_SEGMENT, c] > 1:
        lowest = 0
    if switches and level > 0:
        _share_out_nb(tree, level, domain, level, 0, tally)
        at = 0
    while at > min(lowest, level):
        _share_out_nb(tree, level, domain, at, at - 1, tally)
        at -= 1
    first, end = children_nb(tree, level, domain, at)
    for d in range(first, end):
        if tally[TALLY_QUOTA, at, d] > 0:
            _take_nodes_nb(nodes, bits, tree, links, classes, c, at, d, tally[TALLY_QUOTA, at, d], scan)
    return level


@kernel
def _lowest_domain_nb(
    tree: Tree, count: int, lowest: int, ceiling: int, switches: int, tally: Tally
) -> tuple[int, int]:
    """(level, domain): the lowest level with a domain that holds all; there the one that needs the fewest child
    domains for it, then the one with the fewest nodes that fit."""
    required = tally[TALLY_MUST, tree.domains.shape[0] - 1, 0]
    for level in range(lowest, ceiling + 1):
        best = -1
        best_used = 0
        for d in range(tree.domains[level]):
            if tally[TALLY_FITS, level, d] < count or tally[TALLY_MUST, level, d] < required:
                continue
            if _members_nb(tree, level, d, switches, tally) < count:
                continue
            used = 0 if switches or level == 0 else _children_used_nb(tree, level, d, count, tally)
            fewer = used == best_used and tally[TALLY_FITS, level, d] < tally[TALLY_FITS, level, best]
            if best < 0 or used < best_used or fewer:
                best, best_used = d, used
        if best >= 0:
            return level, best
    return -1, -1


@kernel
def _children_used_nb(tree: Tree, level: int, d: int, count: int, tally: Tally) -> int:
    """How many child domains so many members need: those with required nodes, then the largest."""
    first, end = children_nb(tree, level, d, level - 1)
    used = 0
    for child in range(first, end):
        tally[TALLY_QUOTA, level - 1, child] = 0  # 1 = counted
        if tally[TALLY_MUST, level - 1, child]:
            tally[TALLY_QUOTA, level - 1, child] = 1
            count -= tally[TALLY_FITS, level - 1, child]
            used += 1
    while count > 0:
        best = -1
        for child in range(first, end):
            if tally[TALLY_QUOTA, level - 1, child] == 0 and (
                best < 0 or tally[TALLY_FITS, level - 1, child] > tally[TALLY_FITS, level - 1, best]
            ):
                best = child
        tally[TALLY_QUOTA, level - 1, best] = 1
        count -= tally[TALLY_FITS, level - 1, best]
        used += 1
    return used


@kernel
def _share_out_nb(tree: Tree, top: int, domain: int, level: int, below: int, tally: Tally) -> None:
    """Give the quotas of the domains of `level` that lie in `domain` of the level `top` to theirs at the level `below`.

    Required nodes come first; then children already in use, then others; each time the smallest that takes all that is
    left, or else the largest whole.
    """
    first, end = children_nb(tree, top, domain, level)
    for d in range(first, end):
        first_child, end_child = children_nb(tree, level, d, below)
        left = tally[TALLY_QUOTA, level, d]
        for child in range(first_child, end_child):
            must = tally[TALLY_MUST, below, child] if left else 0
            tally[TALLY_QUOTA, below, child] = must
            left -= must
        while left > 0:
            child, spare = _next_child_nb(below, first_child, end_child, left, tally)
            taken = min(spare, left)
            tally[TALLY_QUOTA, below, child] += taken
            left -= taken


@kernel
def _next_child_nb(level: int, first: int, end: int, left: int, tally: Tally) -> tuple[int, int]:
    """(child domain, nodes it has to spare) to fill next; children in use go before unused ones."""
    best = -1
    best_spare = 0
    for used in (True, False):
        for child in range(first, end):
            if (tally[TALLY_QUOTA, level, child] > 0) != used:
                continue
            spare = tally[TALLY_FITS, level, child] - tally[TALLY_QUOTA, level, child]
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
    nodes: Grid,
    bits: Grid,
    tree: Tree,
    links: Links,
    classes: Classes,
    c: int,
    level: int,
    d: int,
    count: int,
    scan: Grid,
) -> None:
    """Choose `count` of the nodes that fit in a domain: required ones, then by key."""
    first, end = tree.first[level, d], tree.first[level, d + 1]
    whole = count_nb(bits, BITS_FITS, first, end) == count
    rows = 0
    for w in range(first >> 6, (end + 63) >> 6):
        word = bits[BITS_FITS, w] & within_nb(first, end, w)
        if whole:
            bits[BITS_CHOSEN, w] |= word
            continue
        while word:
            scan[SCAN_KEY, rows] = node_key_nb(nodes, bits, tree, links, classes, c, (w << 6) + ctz_nb(word), scan)
            word &= word - 1
            rows += 1
    if whole:
        return
    least_first_nb(scan, int(SCAN_KEY), rows, count)
    for i in range(count):
        put_nb(bits, BITS_CHOSEN, scan[SCAN_KEY, i] & 0xFFFFF)


@kernel
def node_key_nb(nodes: Grid, bits: Grid, tree: Tree, links: Links, classes: Classes, c: int, n: int, scan: Grid) -> int:
    """Sort key of a node that fits, smaller is better: 1 bit not required, 1 bit late, then as in `one_key_nb`."""
    leaf = tree.domain[0, n]
    around = count_nb(bits, BITS_FITS, tree.first[0, leaf], tree.first[0, leaf + 1])
    worst = subset_class_nb(links, nodes[NODE_LINKS, n], scan[SCAN_GPUS, n], classes.columns[CLASS_GPUS, c])
    key = one_key_nb(worst, scan[SCAN_LEFT, n], scan[SCAN_CORES, n], around, n)
    w, bit = n >> 6, n & 63
    free = 1 - (classes.must[classes.columns[CLASS_ROW, c], w] >> bit & 1)
    late = bits[BITS_LATE, w] >> bit & 1
    return int((free << 1 | late) << 59 | key)
