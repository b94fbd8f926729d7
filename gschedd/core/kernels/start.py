"""Start one job now if all of it fits and delays no planned start: every part, every node, or nothing."""

from __future__ import annotations

from gschedd.core.kernels.arrays import (
    BITS_FITS,
    BITS_UNPLANNED,
    CLASS_LEAST,
    CLASS_MOST,
    CLASS_PART,
    CLASS_REQUIRED,
    CLASS_SEGMENT,
    FOREVER,
    QUEUE_LIMIT,
    SOMEDAY,
    USED_BOOKED,
    USED_SHARES,
    VERDICT_PRIORITY,
    VERDICT_RESERVATION,
    VERDICT_RESOURCES,
    VERDICT_STARTED,
    Classes,
    Grid,
    Int64s,
    Links,
    Tally,
    Tree,
)
from gschedd.core.kernels.compiled import kernel
from gschedd.core.kernels.earliest import window_end_nb
from gschedd.core.kernels.find import find_nb, find_one_nb
from gschedd.core.kernels.place import bounds_nb, capacity_nb, place_nb
from gschedd.core.kernels.take import give_back_nb, take_chosen_nb, take_one_nb


@kernel
def try_start_nb(
    nodes: Grid,
    bits: Grid,
    tree: Tree,
    links: Links,
    classes: Classes,
    queue: Grid,
    j: int,
    c: int,
    held: Grid,
    ahead: Grid,
    used: Int64s,
    tally: Tally,
    scan: Grid,
    shares: Grid,
    now: int,
) -> tuple[int, int]:
    """Start job j as class c with all its parts, or leave everything as it was.

    Returns (verdict, nodes that would hold a member of the part that stands in the way if nothing were planned).
    """
    limit = queue[QUEUE_LIMIT, j]
    until = SOMEDAY if limit >= SOMEDAY else now + limit
    first = used[USED_SHARES]
    while c >= 0:  # the parts
        least, most = classes.columns[CLASS_LEAST, c], classes.columns[CLASS_MOST, c]
        n = -1
        if most == 1:
            n = find_one_nb(nodes, bits, tree, links, classes, c, j, held, ahead, now, window_end_nb(now, limit), scan)
        if n >= 0:
            take_one_nb(nodes, bits, links, classes, c, n, until, held, used, scan, shares)
            c = classes.columns[CLASS_PART, c]
            continue
        ceiling, switches = bounds_nb(classes, queue, j, c)
        count = found = unplanned = 0
        end = FOREVER if most > least else window_end_nb(now, limit)  # more only on what is planned for nobody
        while count < least:
            found, unplanned = find_nb(nodes, bits, classes, c, j, held, ahead, now, end, scan)
            count = _takes_nb(bits, int(BITS_FITS), tree, classes, c, found, ceiling, switches, tally)
            count = min(count, most if end == FOREVER else least)
            if end == window_end_nb(now, limit):
                break
            end = window_end_nb(now, limit)
        if count < least:
            give_back_nb(nodes, bits, held, used, first)
            free = _takes_nb(bits, int(BITS_UNPLANNED), tree, classes, c, unplanned, ceiling, switches, tally)
            if free < least:
                return VERDICT_RESOURCES, unplanned
            if used[USED_BOOKED]:
                found, _ = find_nb(nodes, bits, classes, c, -1, held, ahead, now, end, scan)
                if _takes_nb(bits, int(BITS_FITS), tree, classes, c, found, ceiling, switches, tally) < least:
                    return VERDICT_RESERVATION, unplanned
            return VERDICT_PRIORITY, unplanned
        count = _whole_segments_nb(classes, c, count)
        place_nb(nodes, bits, tree, links, classes, c, count, ceiling, switches, tally, scan)
        take_chosen_nb(nodes, bits, links, classes, c, until, held, used, scan, shares)
        c = classes.columns[CLASS_PART, c]
    return VERDICT_STARTED, 0


@kernel
def _takes_nb(
    bits: Grid, row: int, tree: Tree, classes: Classes, c: int, found: int, ceiling: int, switches: int, tally: Tally
) -> int:
    """The most members that the `found` nodes in the set take together."""
    plain = not switches and not classes.columns[CLASS_REQUIRED, c] and classes.columns[CLASS_SEGMENT, c] <= 1
    if plain and (ceiling == tree.domains.shape[0] - 1 or found < classes.columns[CLASS_LEAST, c]):
        return found
    return capacity_nb(bits, row, tree, classes, c, ceiling, switches, tally)


@kernel
def _whole_segments_nb(classes: Classes, c: int, count: int) -> int:
    """So many members or a few less, so that segments are whole; never fewer than the least."""
    segment = max(classes.columns[CLASS_SEGMENT, c], 1)
    return int(max(count - count % segment, classes.columns[CLASS_LEAST, c]))
