"""The earliest instant at which a class has its room beside all that is planned: a replay of what is to come.

Room for a window changes only where something ends, and where the window begins to meet a row ahead. So the replay
looks at every node once, then only at those that an event touches, and keeps the count. Nodes of planned starts that
leave too few GPUs through the window are not looked at at all: they come and go as whole bitmaps.
"""

from __future__ import annotations

from gschedd.core.kernels.arrays import (
    AHEAD_NODE,
    BITS_AHEAD,
    BITS_FITS,
    BITS_GE,
    BITS_LATE,
    BITS_UP,
    CLASS_CORES,
    CLASS_GPU_ROW,
    CLASS_GPUS,
    CLASS_LEAST,
    CLASS_OWN,
    CLASS_REQUIRED,
    CLASS_ROW,
    CLASS_SEGMENT,
    FOREVER,
    HELD_CORES,
    HELD_GPUS,
    HELD_MEMORY,
    HELD_NODE,
    MOST_GE,
    NODE_FREE_CORES,
    NODE_FREE_GPUS,
    NODE_FREE_MEMORY,
    NODE_HEALTHY,
    SCAN_CORES,
    SCAN_GPUS,
    SCAN_LEFT,
    SOMEDAY,
    Classes,
    Grid,
    Tally,
    Tree,
)
from gschedd.core.kernels.bits import ctz_nb, flip_nb, has_nb, popcount_nb, put_nb
from gschedd.core.kernels.compiled import inlined, kernel
from gschedd.core.kernels.events import (
    AT_END,
    AT_GROUPS,
    AT_GUARD,
    AT_MERGED,
    AT_RELEASE,
    GROUP_BY_END,
    GROUP_BY_GUARD,
    GROUP_COUNT,
    GROUP_END,
    GROUP_FIRST,
    GROUP_GUARD,
    GROUP_OWNER,
    GROUP_SPARE,
    LINE_CORES,
    LINE_GPUS,
    LINE_MEMORY,
    MARK_BLOCKED,
    MARK_MAY,
    MARK_SPARE,
    RELEASE_ROW,
    RELEASE_TIME,
    Line,
    first_later_nb,
    next_instant_nb,
)
from gschedd.core.kernels.place import capacity_nb
from gschedd.core.kernels.room import clear_nb, member_fits_nb, running_room_nb


@kernel
def window_end_nb(start: int, limit: int) -> int:
    """End of the window that a job with this limit fills when it starts at `start`."""
    return FOREVER if limit >= SOMEDAY or start >= SOMEDAY else start + limit


@kernel
def earliest_nb(
    nodes: Grid,
    bits: Grid,
    tree: Tree,
    classes: Classes,
    c: int,
    j: int,
    limit: int,
    held: Grid,
    ahead: Grid,
    line: Line,
    ceiling: int,
    switches: int,
    tally: Tally,
    scan: Grid,
    now: int,
    floor: int,
    last: int,
) -> int:
    """The first instant in [floor, last] at which class c has room through its limit (ms) for job j; -1 if none.

    The caller knows that there is none before `floor`. BITS_FITS is then the nodes that fit at that instant, `scan`
    what they have, and BITS_LATE those of them whose room comes only SOMEDAY.
    """
    t = max(now, floor)
    if t > last:
        return -1
    found = short = 0  # short: nodes that must come before it is worth to look at the domains again
    least, own = classes.columns[CLASS_LEAST, c], classes.columns[CLASS_OWN, c]
    count = _begin_nb(nodes, bits, classes, c, j, limit, held, line, now, t)
    while t <= last:
        end = window_end_nb(t, limit)
        before = found
        for i in range(count):
            n = line.todo[i]
            gpus, cores, memory = line.room[n, LINE_GPUS], line.room[n, LINE_CORES], line.room[n, LINE_MEMORY]
            fits = member_fits_nb(nodes, classes, c, n, gpus, cores, memory)
            if fits and has_nb(bits, BITS_AHEAD, n):
                gpus, cores, memory = clear_nb(nodes, classes, c, j, held, ahead, n, t, end, gpus, cores, memory)
                fits = member_fits_nb(nodes, classes, c, n, gpus, cores, memory)
            if fits != has_nb(bits, BITS_FITS, n):
                flip_nb(bits, BITS_FITS, n)
                found += 2 * fits - 1
        short -= max(found - before, 0)
        if found >= least and short <= 0:
            short = _short_nb(bits, tree, classes, c, ceiling, switches, tally)
            if short <= 0:
                _note_rooms_nb(nodes, bits, classes, c, j, held, ahead, line.room, t, end, scan)
                return int(t)
        t = next_instant_nb(line, limit)
        if t > last:
            break
        count = _release_nb(nodes, bits, classes, c, held, line, t)
        if groups_change_nb(line, t, window_end_nb(t, limit)):
            count, found = _regroup_nb(
                nodes, bits, held, ahead, line, classes.columns[CLASS_GPUS, c], j, own, t, limit, count, found
            )
    return -1


@kernel
def _begin_nb(
    nodes: Grid, bits: Grid, classes: Classes, c: int, j: int, limit: int, held: Grid, line: Line, now: int, t: int
) -> int:
    """Put the search behind all events up to t; returns how many nodes are to be looked at: `line.todo`."""
    row, need = classes.columns[CLASS_ROW, c], classes.columns[CLASS_GPUS, c]
    end = window_end_nb(t, limit)
    count = 0
    _block_nb(line, MARK_BLOCKED, need, j, classes.columns[CLASS_OWN, c], t, end)
    for w in range(bits.shape[1]):
        may = classes.may[row, w] & bits[BITS_UP, w] & ~classes.avoided[row, w]
        line.marks[MARK_MAY, w] = may
        bits[BITS_FITS, w] = bits[BITS_LATE, w] = 0
        word = may & ~line.marks[MARK_BLOCKED, w]
        at_once = bits[BITS_GE + min(need, MOST_GE), w] if t == now else -1
        while word:
            n = (w << 6) + ctz_nb(word)
            if t == now:
                line.room[n, LINE_GPUS] = nodes[NODE_FREE_GPUS, n]
                line.room[n, LINE_CORES] = nodes[NODE_FREE_CORES, n]
                line.room[n, LINE_MEMORY] = nodes[NODE_FREE_MEMORY, n]
            else:
                _load_nb(nodes, held, line.room, n, min(t, SOMEDAY - 1))
            if t >= SOMEDAY:
                _note_late_nb(nodes, bits, classes, c, line.room, n)
                _load_nb(nodes, held, line.room, n, t)
            line.todo[count] = n
            count += at_once >> (n & 63) & 1  # the others have too few GPUs now
            word &= word - 1
    line.at[AT_RELEASE] = first_later_nb(line, t)
    e = g = 0
    while e < line.at[AT_GROUPS] and line.groups[GROUP_END, line.groups[GROUP_BY_END, e]] <= t:
        e += 1
    while g < line.at[AT_GROUPS] and line.groups[GROUP_GUARD, line.groups[GROUP_BY_GUARD, g]] < end:
        g += 1
    line.at[AT_END], line.at[AT_GUARD] = e, g
    return count


@kernel
def _block_nb(line: Line, mark: int, need: int, j: int, own: int, start: int, end: int) -> None:
    """Mark the nodes of all groups of others that are met by [start, end) and leave fewer than `need` GPUs."""
    for w in range(line.marks.shape[1]):
        line.marks[mark, w] = 0
    for group in range(line.at[AT_GROUPS]):
        met = line.groups[GROUP_GUARD, group] < end and line.groups[GROUP_END, group] > start
        if met and _blocks_nb(line.groups, group, need, j, own):
            for w in range(line.marks.shape[1]):
                line.marks[mark, w] |= line.reach[group, w]


@inlined
def _blocks_nb(groups: Grid, group: int, need: int, j: int, own: int) -> bool:
    """Whether a group leaves too few GPUs on each of its nodes to job j, where it is met."""
    owner = groups[GROUP_OWNER, group]
    return bool(need > groups[GROUP_SPARE, group] and (owner == -1 or owner not in (j, own)))


@inlined
def _release_nb(nodes: Grid, bits: Grid, classes: Classes, c: int, held: Grid, line: Line, t: int) -> int:
    """Give back what ends at t, the next instant; returns how many nodes are to be looked at."""
    count = 0
    i = line.at[AT_RELEASE]
    while i < line.at[AT_MERGED] and line.releases[RELEASE_TIME, i] <= t:
        row = line.releases[RELEASE_ROW, i]
        n = held[HELD_NODE, row]
        i += 1
        if not has_nb(line.marks, MARK_MAY, n) or has_nb(line.marks, MARK_BLOCKED, n):
            continue
        if t >= SOMEDAY:
            _note_late_nb(nodes, bits, classes, c, line.room, n)
        line.room[n, LINE_GPUS] |= held[HELD_GPUS, row] & nodes[NODE_HEALTHY, n]
        line.room[n, LINE_CORES] += held[HELD_CORES, row]
        line.room[n, LINE_MEMORY] += held[HELD_MEMORY, row]
        if not has_nb(bits, BITS_FITS, n):
            line.todo[count] = n
            count += 1
    line.at[AT_RELEASE] = i
    return count


@kernel
def _note_late_nb(nodes: Grid, bits: Grid, classes: Classes, c: int, room: Grid, n: int) -> None:
    """Node n is about to get what comes only SOMEDAY: note whether a member needs it."""
    if not member_fits_nb(nodes, classes, c, n, room[n, LINE_GPUS], room[n, LINE_CORES], room[n, LINE_MEMORY]):
        put_nb(bits, BITS_LATE, n)


@inlined
def groups_change_nb(line: Line, t: int, end: int) -> bool:
    """Whether a group ends, or begins to be met by windows to `end`, at the instant t."""
    e, g, size = line.at[AT_END], line.at[AT_GUARD], line.at[AT_GROUPS]
    if e < size and line.groups[GROUP_END, line.groups[GROUP_BY_END, e]] <= t:
        return True
    return bool(g < size and line.groups[GROUP_GUARD, line.groups[GROUP_BY_GUARD, g]] < end)


@kernel
def _regroup_nb(
    nodes: Grid,
    bits: Grid,
    held: Grid,
    ahead: Grid,
    line: Line,
    need: int,
    j: int,
    own: int,
    t: int,
    limit: int,
    count: int,
    found: int,
) -> tuple[int, int]:
    """Groups end, or begin to be met, at t. Returns (nodes to be looked at, nodes that fit)."""
    end = window_end_nb(t, limit)
    changed = False
    e = line.at[AT_END]
    while e < line.at[AT_GROUPS] and line.groups[GROUP_END, line.groups[GROUP_BY_END, e]] <= t:
        group = line.groups[GROUP_BY_END, e]
        e += 1
        if _blocks_nb(line.groups, group, need, j, own):
            changed = True
        else:
            count = _look_again_nb(bits, ahead, line, group, 0, count)
    line.at[AT_END] = e
    g = line.at[AT_GUARD]
    while g < line.at[AT_GROUPS] and line.groups[GROUP_GUARD, line.groups[GROUP_BY_GUARD, g]] < end:
        group = line.groups[GROUP_BY_GUARD, g]
        g += 1
        if _blocks_nb(line.groups, group, need, j, own):
            changed = True
        else:
            count = _look_again_nb(bits, ahead, line, group, 1, count)
    line.at[AT_GUARD] = g
    if not changed:
        return count, found
    _block_nb(line, MARK_SPARE, need, j, own, t, end)
    for w in range(bits.shape[1]):
        before, after = line.marks[MARK_BLOCKED, w], line.marks[MARK_SPARE, w]
        line.marks[MARK_BLOCKED, w] = after
        found -= popcount_nb(bits[BITS_FITS, w] & after)
        bits[BITS_FITS, w] &= ~after
        word = before & ~after & line.marks[MARK_MAY, w]
        while word:
            n = (w << 6) + ctz_nb(word)
            word &= word - 1
            _load_nb(nodes, held, line.room, n, t)
            line.todo[count] = n
            count += 1
    return count, found


@kernel
def _look_again_nb(bits: Grid, ahead: Grid, line: Line, group: int, met: int, count: int) -> int:
    """Add the nodes of a group that ends, or that begins to be met, to the `count` nodes to be looked at."""
    first = line.groups[GROUP_FIRST, group]
    for row in range(first, first + line.groups[GROUP_COUNT, group]):
        n = ahead[AHEAD_NODE, row]
        may = has_nb(line.marks, MARK_MAY, n) and not has_nb(line.marks, MARK_BLOCKED, n)
        if may and has_nb(bits, BITS_FITS, n) == met:
            line.todo[count] = n
            count += 1
    return count


@kernel
def _load_nb(nodes: Grid, held: Grid, room: Grid, n: int, t: int) -> None:
    """Begin the search's room on node n with what is free at t."""
    room[n, LINE_GPUS], room[n, LINE_CORES], room[n, LINE_MEMORY] = running_room_nb(nodes, held, n, t)


@kernel
def _short_nb(bits: Grid, tree: Tree, classes: Classes, c: int, ceiling: int, switches: int, tally: Tally) -> int:
    """How many more nodes the class needs at least, so that some set of those that fit will do; 0 = none."""
    segment, required = classes.columns[CLASS_SEGMENT, c], classes.columns[CLASS_REQUIRED, c]
    if ceiling == tree.domains.shape[0] - 1 and not switches and not required and segment <= 1:
        return 0  # any will do
    least = classes.columns[CLASS_LEAST, c]
    found = capacity_nb(bits, BITS_FITS, tree, classes, c, ceiling, switches, tally)
    if found >= least:
        return 0
    return 1 if required or segment > 1 else least - found  # one node more is one member more, at most


@kernel
def _note_rooms_nb(
    nodes: Grid,
    bits: Grid,
    classes: Classes,
    c: int,
    j: int,
    held: Grid,
    ahead: Grid,
    room: Grid,
    t: int,
    end: int,
    scan: Grid,
) -> None:
    """Fill `scan` for the nodes that fit, as find_nb does, but of the room at t; nodes that don't fit are not late."""
    need, usable = classes.columns[CLASS_GPUS, c], classes.columns[CLASS_GPU_ROW, c]
    for w in range(bits.shape[1]):
        word = bits[BITS_FITS, w]
        bits[BITS_LATE, w] &= word
        while word:
            n = (w << 6) + ctz_nb(word)
            word &= word - 1
            gpus, cores, memory = room[n, LINE_GPUS], room[n, LINE_CORES], room[n, LINE_MEMORY]
            scan[SCAN_LEFT, n], scan[SCAN_CORES, n] = popcount_nb(gpus) - need, cores - classes.columns[CLASS_CORES, c]
            if has_nb(bits, BITS_AHEAD, n):
                gpus, _, _ = clear_nb(nodes, classes, c, j, held, ahead, n, t, end, gpus, cores, memory)
            scan[SCAN_GPUS, n] = gpus & classes.usable[usable, n]
