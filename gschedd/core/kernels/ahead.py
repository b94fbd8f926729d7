"""Planned starts: the earliest instant at which a job that must wait can have its room, kept free from then on."""

from __future__ import annotations

from gschedd.core.kernels.arrays import (
    AHEAD_CORES,
    AHEAD_END,
    AHEAD_GPUS,
    AHEAD_GUARD,
    AHEAD_LINK,
    AHEAD_MEMORY,
    AHEAD_NODE,
    AHEAD_OWNER,
    AHEAD_START,
    AVOIDED,
    BITS_AHEAD,
    BITS_CHOSEN,
    BITS_FITS,
    BITS_LATE,
    BITS_UP,
    CLASS_CORES,
    CLASS_GPU_ROW,
    CLASS_GPUS,
    CLASS_LEAST,
    CLASS_REQUIRED,
    CLASS_ROW,
    FOREVER,
    HELD_END,
    HELD_LINK,
    MUST,
    NODE_AHEAD,
    NODE_AHEAD_CORES,
    NODE_AHEAD_GPUS,
    NODE_AHEAD_GUARD,
    NODE_AHEAD_LAST,
    NODE_AHEAD_MEMORY,
    NODE_LINKS,
    NODE_RUNS,
    NODE_UP,
    OUT_NODES,
    OUT_START,
    QUEUE_CLS,
    QUEUE_LIMIT,
    SCAN_CORES,
    SCAN_GPUS,
    SCAN_KEY,
    SCAN_LEFT,
    SCAN_WHEN,
    SHARE_CLASS,
    SHARE_NODE,
    SOMEDAY,
    USED_AHEAD,
    USED_SHARES,
    Classes,
    Grid,
    Int64s,
    Links,
    Tally,
    Tree,
)
from gschedd.core.kernels.bits import ctz_nb, has_nb, popcount_nb, put_nb
from gschedd.core.kernels.compiled import kernel
from gschedd.core.kernels.links import subset_nb
from gschedd.core.kernels.place import bounds_nb, capacity_nb, place_nb
from gschedd.core.kernels.room import clear_nb, member_fits_nb, memory_need_nb, running_room_nb
from gschedd.core.kernels.sort import sort_nb


@kernel
def plan_ahead_nb(
    nodes: Grid,
    bits: Grid,
    tree: Tree,
    links: Links,
    classes: Classes,
    queue: Grid,
    j: int,
    held: Grid,
    ahead: Grid,
    used: Int64s,
    memo: Grid,
    tally: Tally,
    scan: Grid,
    times: Grid,
    out: Grid,
    shares: Grid,
    now: int,
    urgent: int,
) -> None:
    """Plan job j at its earliest start, if it has one.

    Where only runs without an expected end stand in the way the start is SOMEDAY: no instant to tell, but jobs without
    a limit keep out, so nodes that become free stay free for it. Then nodes that are free soonest are taken first.
    """
    c = queue[QUEUE_CLS, j]
    ceiling, switches = bounds_nb(classes, queue, memo, j, c)
    start = _earliest_nb(
        nodes,
        bits,
        tree,
        classes,
        c,
        j,
        queue[QUEUE_LIMIT, j],
        held,
        ahead,
        ceiling,
        switches,
        tally,
        scan,
        times,
        now,
    )
    if start < 0:
        return
    end = window_end_nb(start, queue[QUEUE_LIMIT, j])
    _find_at_nb(nodes, bits, classes, c, j, held, ahead, start, end, scan)
    if start >= SOMEDAY:
        for n in range(nodes.shape[1]):
            if has_nb(bits, BITS_FITS, n) and scan[SCAN_WHEN, n] >= SOMEDAY:
                put_nb(bits, BITS_LATE, n)
    place_nb(nodes, bits, tree, links, classes, c, classes.columns[CLASS_LEAST, c], ceiling, switches, tally, scan)
    guard = now if start - now <= urgent else start
    for n in range(nodes.shape[1]):
        if not has_nb(bits, BITS_CHOSEN, n):
            continue
        cores, memory = classes.columns[CLASS_CORES, c], memory_need_nb(nodes, classes, c, n)
        gpus = subset_nb(links, nodes[NODE_LINKS, n], scan[SCAN_GPUS, n], classes.columns[CLASS_GPUS, c])
        put_ahead_nb(nodes, bits, ahead, used, n, guard, start, end, cores, memory, gpus, j)
        share = used[USED_SHARES]
        used[USED_SHARES] = share + 1
        shares[SHARE_NODE, share], shares[SHARE_CLASS, share] = n, c
        out[OUT_NODES, j] += 1
    out[OUT_START, j] = start


@kernel
def put_ahead_nb(
    nodes: Grid,
    bits: Grid,
    ahead: Grid,
    used: Int64s,
    n: int,
    guard: int,
    start: int,
    end: int,
    cores: int,
    memory: int,
    gpus: int,
    owner: int,
) -> None:
    """Keep that much of node n free through [start, end) for its owner; see AHEAD_OWNER."""
    row = used[USED_AHEAD]
    used[USED_AHEAD] = row + 1
    ahead[AHEAD_LINK, row], nodes[NODE_AHEAD, n] = nodes[NODE_AHEAD, n], row
    ahead[AHEAD_GUARD, row], ahead[AHEAD_START, row], ahead[AHEAD_END, row] = guard, start, end
    ahead[AHEAD_CORES, row], ahead[AHEAD_MEMORY, row], ahead[AHEAD_GPUS, row] = cores, memory, gpus
    ahead[AHEAD_OWNER, row], ahead[AHEAD_NODE, row] = owner, n
    put_nb(bits, BITS_AHEAD, n)
    nodes[NODE_AHEAD_GUARD, n] = min(nodes[NODE_AHEAD_GUARD, n], guard)
    nodes[NODE_AHEAD_LAST, n] = max(nodes[NODE_AHEAD_LAST, n], end)
    nodes[NODE_AHEAD_GPUS, n] |= gpus
    nodes[NODE_AHEAD_CORES, n] += cores
    nodes[NODE_AHEAD_MEMORY, n] += memory


@kernel
def window_end_nb(start: int, limit: int) -> int:
    """End of the window that a job with this limit fills when it starts at `start`."""
    return FOREVER if limit >= SOMEDAY or start >= SOMEDAY else start + limit


@kernel
def _earliest_nb(
    nodes: Grid,
    bits: Grid,
    tree: Tree,
    classes: Classes,
    c: int,
    j: int,
    limit: int,
    held: Grid,
    ahead: Grid,
    ceiling: int,
    switches: int,
    tally: Tally,
    scan: Grid,
    times: Grid,
    now: int,
) -> int:
    """The earliest instant at which class c has room through its limit beside what is planned; -1 if none.

    Room only grows when something ends, so only ends (and now) are tried, from a lower bound that leaves planned starts
    aside: the instant at which the last of the needed nodes has its room.
    """
    bound = _bound_nb(nodes, classes, c, held, scan, now)
    if bound < 0:
        return bound
    count = _instants_nb(nodes, held, ahead, scan, times, bound)
    sort_nb(times, 0, count)
    last = -1
    for i in range(count):
        t = times[0, i]
        if t == last:
            continue
        last = t
        end = window_end_nb(t, limit)
        found = _find_at_nb(nodes, bits, classes, c, j, held, ahead, t, end, scan)
        least = classes.columns[CLASS_LEAST, c]
        if found >= least and capacity_nb(bits, int(BITS_FITS), tree, classes, c, ceiling, switches, tally) >= least:
            return int(t)
    return -1


@kernel
def _find_at_nb(
    nodes: Grid, bits: Grid, classes: Classes, c: int, j: int, held: Grid, ahead: Grid, start: int, end: int, scan: Grid
) -> int:
    """Find the nodes that hold one member of class c through [start, end): as `find.find_nb`, but later."""
    found = 0
    row = classes.columns[CLASS_ROW, c]
    for w in range(bits.shape[1]):
        word = classes.may[row, w] & bits[BITS_UP, w] & ~classes.avoided[row, w]
        bits[BITS_FITS, w] = bits[BITS_LATE, w] = 0
        while word:
            n = (w << 6) + ctz_nb(word)
            word &= word - 1
            gpus, cores, memory = running_room_nb(nodes, held, n, start)
            left = popcount_nb(gpus) - classes.columns[CLASS_GPUS, c], cores - classes.columns[CLASS_CORES, c]
            gpus, cores, memory = clear_nb(nodes, classes, c, j, held, ahead, n, start, end, gpus, cores, memory)
            if not member_fits_nb(nodes, classes, c, n, gpus, cores, memory):
                continue
            scan[SCAN_GPUS, n] = gpus & classes.usable[classes.columns[CLASS_GPU_ROW, c], n]
            scan[SCAN_LEFT, n], scan[SCAN_CORES, n] = left
            put_nb(bits, BITS_FITS, n)
            found += 1
    return found


@kernel
def _bound_nb(nodes: Grid, classes: Classes, c: int, held: Grid, scan: Grid, now: int) -> int:
    """The earliest start if nothing were planned; -1 if none. Fills `scan.when` (-1 = never) for each node."""
    row = classes.columns[CLASS_ROW, c]
    rows = 0
    bound = now
    required = 0
    for n in range(nodes.shape[1]):
        eligible = classes.eligible[row, n]
        takes = eligible and not eligible & AVOIDED and nodes[NODE_UP, n]
        scan[SCAN_WHEN, n] = node_when_nb(nodes, classes, c, held, n, now) if takes else -1
        if scan[SCAN_WHEN, n] < 0:
            continue
        scan[SCAN_KEY, rows] = scan[SCAN_WHEN, n]
        rows += 1
        if eligible & MUST:
            required += 1
            bound = max(bound, scan[SCAN_WHEN, n])
    if rows < classes.columns[CLASS_LEAST, c] or required < classes.columns[CLASS_REQUIRED, c]:
        return -1
    sort_nb(scan, int(SCAN_KEY), rows)
    return int(max(bound, scan[SCAN_KEY, classes.columns[CLASS_LEAST, c] - 1]))


@kernel
def node_when_nb(nodes: Grid, classes: Classes, c: int, held: Grid, n: int, now: int) -> int:
    """When node n first has room for a member of class c, planned starts left aside; -1 if never."""
    gpus, cores, memory = running_room_nb(nodes, held, n, now)
    if member_fits_nb(nodes, classes, c, n, gpus, cores, memory):
        return now
    best = -1
    row = nodes[NODE_RUNS, n]
    while row >= 0:
        end = held[HELD_END, row]
        if end > now and (best < 0 or end < best):
            gpus, cores, memory = running_room_nb(nodes, held, n, end)
            if member_fits_nb(nodes, classes, c, n, gpus, cores, memory):
                best = end
        row = held[HELD_LINK, row]
    return best


@kernel
def _instants_nb(nodes: Grid, held: Grid, ahead: Grid, scan: Grid, times: Grid, bound: int) -> int:
    """Fill `scan.times` with the instants from `bound` on at which a start may become possible; returns how many."""
    times[0, 0] = bound
    count = 1
    for n in range(nodes.shape[1]):
        if scan[SCAN_WHEN, n] > bound:
            times[0, count] = scan[SCAN_WHEN, n]
            count += 1
        if nodes[NODE_AHEAD, n] < 0:
            continue
        row = nodes[NODE_RUNS, n]
        while row >= 0:
            if held[HELD_END, row] > bound:
                times[0, count] = held[HELD_END, row]
                count += 1
            row = held[HELD_LINK, row]
        row = nodes[NODE_AHEAD, n]
        while row >= 0:
            if ahead[AHEAD_END, row] > bound:
                times[0, count] = min(ahead[AHEAD_END, row], SOMEDAY)
                count += 1
            row = ahead[AHEAD_LINK, row]
    return count
