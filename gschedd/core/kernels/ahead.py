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
    BITS_AHEAD,
    BITS_CHOSEN,
    BITS_FITS,
    CLASS_CORES,
    CLASS_GPUS,
    CLASS_LEAST,
    FOREVER,
    NODE_AHEAD,
    NODE_AHEAD_CORES,
    NODE_AHEAD_GPUS,
    NODE_AHEAD_GUARD,
    NODE_AHEAD_LAST,
    NODE_AHEAD_MEMORY,
    NODE_LINKS,
    OUT_NODES,
    OUT_START,
    QUEUE_CLS,
    QUEUE_LIMIT,
    SCAN_GPUS,
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
from gschedd.core.kernels.bits import ctz_nb, has_nb, put_nb
from gschedd.core.kernels.compiled import inlined, kernel
from gschedd.core.kernels.earliest import earliest_nb, window_end_nb
from gschedd.core.kernels.events import (
    FLOOR_CEILING,
    FLOOR_LIMIT,
    FLOOR_START,
    FLOOR_SWITCHES,
    MARK_SPARE,
    OPEN_CLAIM,
    OPEN_FROM,
    OPEN_UNTIL,
    PROMISE_COUNT,
    PROMISE_FIRST,
    PROMISE_START,
    Line,
    merge_releases_nb,
    put_group_nb,
)
from gschedd.core.kernels.links import subset_nb
from gschedd.core.kernels.place import bounds_nb, place_nb
from gschedd.core.kernels.room import memory_need_nb


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
    tally: Tally,
    scan: Grid,
    line: Line,
    out: Grid,
    shares: Grid,
    now: int,
    urgent: int,
) -> int:
    """Plan job j at its earliest start, if it has one: on the nodes it was promised, if that is the promised instant.

    Returns 1, or 0 if its reservation has no time for it: then it is not among those that get a planned start.

    Where only runs without an expected end stand in the way the start is SOMEDAY: no instant to tell, but jobs without
    a limit keep out, so nodes that become free stay free for it. Then nodes that are free soonest are taken first.
    """
    c, limit = queue[QUEUE_CLS, j], queue[QUEUE_LIMIT, j]
    ceiling, switches = bounds_nb(classes, queue, j, c)
    merge_releases_nb(held, used, line, now)
    opens, last = opening_nb(line, j, limit, now)
    if opens > last:
        return 0
    claimed = has_claim_nb(line, j)
    floor = opens if claimed else max(opens, _floor_nb(line, c, limit, ceiling, switches, now))
    start = earliest_nb(
        nodes, bits, tree, classes, c, j, limit, held, ahead, line, ceiling, switches, tally, scan, now, floor, last
    )
    if not claimed:
        line.floors[FLOOR_LIMIT, c], line.floors[FLOOR_START, c] = limit, start if start >= 0 else FOREVER
        line.floors[FLOOR_CEILING, c], line.floors[FLOOR_SWITCHES, c] = ceiling, switches
    if start < 0:
        return 1
    least = classes.columns[CLASS_LEAST, c]
    kept = _restrict_to_promise_nb(bits, line, j, start, least)
    level = place_nb(nodes, bits, tree, links, classes, c, least, ceiling, switches, tally, scan)
    if kept and level < 0:
        _give_up_promise_nb(bits, line)
        place_nb(nodes, bits, tree, links, classes, c, least, ceiling, switches, tally, scan)
    guard = now if start - now <= urgent else start
    first = used[USED_AHEAD]
    for w in range(bits.shape[1]):
        word = bits[BITS_CHOSEN, w]
        while word:
            n = (w << 6) + ctz_nb(word)
            word &= word - 1
            cores, memory = classes.columns[CLASS_CORES, c], memory_need_nb(nodes, classes, c, n)
            gpus = subset_nb(links, nodes[NODE_LINKS, n], scan[SCAN_GPUS, n], classes.columns[CLASS_GPUS, c])
            end = window_end_nb(start, limit)
            put_ahead_nb(nodes, bits, ahead, used, n, guard, start, end, cores, memory, gpus, j)
            share = used[USED_SHARES]
            used[USED_SHARES] = share + 1
            shares[SHARE_NODE, share], shares[SHARE_CLASS, share] = n, c
            out[OUT_NODES, j] += 1
    put_group_nb(nodes, ahead, line, first, used[USED_AHEAD] - first)
    out[OUT_START, j] = start
    return 1


@inlined
def opening_nb(line: Line, j: int, limit: int, now: int) -> tuple[int, int]:
    """(first, last) instant at which job j may start, by its reservation; first = FOREVER: it may not."""
    if line.openings.shape[1] == 0 or line.openings[OPEN_UNTIL, j] == FOREVER:
        opens = line.openings[OPEN_FROM, j] if line.openings.shape[1] else 0
        return max(now, opens), SOMEDAY
    return max(now, line.openings[OPEN_FROM, j]), line.openings[OPEN_UNTIL, j] - limit


@inlined
def has_claim_nb(line: Line, j: int) -> bool:
    """Whether something is kept for job j alone: what is known of its class may not hold for it."""
    return bool(line.openings.shape[1] > 0 and line.openings[OPEN_CLAIM, j] > 0)


@kernel
def _floor_nb(line: Line, c: int, limit: int, ceiling: int, switches: int, now: int) -> int:
    """An instant before which a job of class c with this limit does not start: room only shrinks within a pass."""
    known = line.floors[FLOOR_LIMIT, c]
    alike = line.floors[FLOOR_CEILING, c] == ceiling and line.floors[FLOOR_SWITCHES, c] == switches
    return line.floors[FLOOR_START, c] if known and limit >= known and alike else now


@kernel
def _restrict_to_promise_nb(bits: Grid, line: Line, j: int, start: int, least: int) -> bool:
    """Where job j was promised this start, and its nodes still fit, let no others fit. Returns whether that is so."""
    count = line.promises[PROMISE_COUNT, j]
    if line.promises[PROMISE_START, j] != start or count != least:
        return False
    first = line.promises[PROMISE_FIRST, j]
    for i in range(first, first + count):
        if not has_nb(bits, BITS_FITS, line.promised[i]):
            return False
    for w in range(bits.shape[1]):
        line.marks[MARK_SPARE, w], bits[BITS_FITS, w] = bits[BITS_FITS, w], 0
    for i in range(first, first + count):
        put_nb(bits, BITS_FITS, line.promised[i])
    return True


@kernel
def _give_up_promise_nb(bits: Grid, line: Line) -> None:
    """Let all nodes fit again that did."""
    for w in range(bits.shape[1]):
        bits[BITS_FITS, w] = line.marks[MARK_SPARE, w]


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
