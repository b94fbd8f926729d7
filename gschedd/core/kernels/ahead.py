"""Planned starts: the earliest instant at which a job that must wait can have its room, kept free from then on."""

from __future__ import annotations

from gschedd.core.kernels.arrays import (
    AVOIDED,
    FOREVER,
    MUST,
    SOMEDAY,
    Ahead,
    ClassArrays,
    Held,
    LinkArrays,
    NodeArrays,
    Outcome,
    QueueArrays,
    Scan,
)
from gschedd.core.kernels.compiled import kernel
from gschedd.core.kernels.links import subset_nb
from gschedd.core.kernels.place import member_fits_nb, place_nb, scan_nb
from gschedd.core.kernels.room import memory_need_nb, running_room_nb


@kernel
def plan_ahead_nb(
    nodes: NodeArrays,
    links: LinkArrays,
    classes: ClassArrays,
    queue: QueueArrays,
    j: int,
    held: Held,
    ahead: Ahead,
    scan: Scan,
    out: Outcome,
    now: int,
    urgent: int,
) -> None:
    """Plan job j at its earliest start, if it has one.

    Where only runs without an expected end stand in the way the start is SOMEDAY: no instant to tell, but jobs without
    a limit keep out, so nodes that become free stay free for it. Then nodes that are free soonest are taken first.
    """
    c = queue.cls[j]
    start = _earliest_nb(nodes, classes, c, queue.limit[j], held, ahead, scan, now)
    if start < 0:
        return
    end = window_end_nb(start, queue.limit[j])
    scan_nb(nodes, classes, c, held, ahead, start, end, now, scan)
    if start >= SOMEDAY:
        for n in range(nodes.up.shape[0]):
            scan.late[n] = 1 if scan.fits[n] and scan.when[n] >= SOMEDAY else 0
    place_nb(nodes, links, classes, c, classes.least[c], scan)
    guard = now if start - now <= urgent else start
    for n in range(nodes.up.shape[0]):
        if not scan.chosen[n]:
            continue
        row = ahead.used[0]
        ahead.used[0] = row + 1
        ahead.link[row], ahead.head[n] = ahead.head[n], row
        ahead.guard[row], ahead.start[row], ahead.end[row] = guard, start, end
        ahead.cores[row] = classes.cores[c]
        ahead.memory[row] = memory_need_nb(nodes, classes, c, n)
        ahead.gpus[row] = subset_nb(links, nodes.links[n], scan.gpus[n], classes.gpus[c])
        share = out.used[0]
        out.used[0] = share + 1
        out.share_node[share] = n
        out.nodes[j] += 1
    out.start[j] = start


@kernel
def window_end_nb(start: int, limit: int) -> int:
    """End of the window that a job with this limit fills when it starts at `start`."""
    return FOREVER if limit >= SOMEDAY or start >= SOMEDAY else start + limit


@kernel
def _earliest_nb(
    nodes: NodeArrays, classes: ClassArrays, c: int, limit: int, held: Held, ahead: Ahead, scan: Scan, now: int
) -> int:
    """The earliest instant at which class c has room through its limit beside what is planned; -1 if none.

    Room only grows when something ends, so only ends (and now) are tried, from a lower bound that leaves planned starts
    aside: the instant at which the last of the needed nodes has its room.
    """
    bound = _bound_nb(nodes, classes, c, held, scan, now)
    if bound < 0 or ahead.used[0] == 0:
        return bound
    count = _instants_nb(nodes, held, ahead, scan, bound)
    scan.times[:count].sort()
    last = -1
    for i in range(count):
        t = scan.times[i]
        if t == last:
            continue
        last = t
        end = window_end_nb(t, limit)
        found, required, _, _ = scan_nb(nodes, classes, c, held, ahead, t, end, now, scan)
        if found >= classes.least[c] and required >= classes.required[c]:
            return int(t)
    return -1


@kernel
def _bound_nb(nodes: NodeArrays, classes: ClassArrays, c: int, held: Held, scan: Scan, now: int) -> int:
    """The earliest start if nothing were planned; -1 if none. Fills `scan.when` (-1 = never) for each node."""
    row = classes.row[c]
    rows = 0
    bound = now
    required = 0
    for n in range(nodes.up.shape[0]):
        eligible = classes.eligible[row, n]
        takes = eligible and not eligible & AVOIDED and nodes.up[n]
        scan.when[n] = node_when_nb(nodes, classes, c, held, n, now) if takes else -1
        if scan.when[n] < 0:
            continue
        scan.key[rows] = scan.when[n]
        rows += 1
        if eligible & MUST:
            required += 1
            bound = max(bound, scan.when[n])
    if rows < classes.least[c] or required < classes.required[c]:
        return -1
    scan.key[:rows].sort()
    return int(max(bound, scan.key[classes.least[c] - 1]))


@kernel
def node_when_nb(nodes: NodeArrays, classes: ClassArrays, c: int, held: Held, n: int, now: int) -> int:
    """When node n first has room for a member of class c, planned starts left aside; -1 if never."""
    gpus, cores, memory = running_room_nb(nodes, held, n, now)
    if member_fits_nb(nodes, classes, c, n, gpus, cores, memory):
        return now
    best = -1
    row = held.head[n]
    while row >= 0:
        end = held.end[row]
        if end > now and (best < 0 or end < best):
            gpus, cores, memory = running_room_nb(nodes, held, n, end)
            if member_fits_nb(nodes, classes, c, n, gpus, cores, memory):
                best = end
        row = held.link[row]
    return best


@kernel
def _instants_nb(nodes: NodeArrays, held: Held, ahead: Ahead, scan: Scan, bound: int) -> int:
    """Fill `scan.times` with the instants from `bound` on at which a start may become possible; returns how many."""
    scan.times[0] = bound
    count = 1
    for n in range(nodes.up.shape[0]):
        if scan.when[n] > bound:
            scan.times[count] = scan.when[n]
            count += 1
        if ahead.head[n] < 0:
            continue
        row = held.head[n]
        while row >= 0:
            if held.end[row] > bound:
                scan.times[count] = held.end[row]
                count += 1
            row = held.link[row]
        row = ahead.head[n]
        while row >= 0:
            if ahead.end[row] > bound:
                scan.times[count] = min(ahead.end[row], SOMEDAY)
                count += 1
            row = ahead.link[row]
    return count
