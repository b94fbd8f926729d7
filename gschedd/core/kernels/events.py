"""What is to come, in order of time: when runs give back what they hold, and when rows ahead end or begin to be met.

Releases are sorted once, when the first job has to wait, by radix; what has started since then is sorted and merged in
before the next search. Rows ahead come and go by groups: a planned start, a reservation or a claim is one.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from gschedd.core.kernels.arrays import (
    AHEAD_CORES,
    AHEAD_END,
    AHEAD_GPUS,
    AHEAD_GUARD,
    AHEAD_NODE,
    AHEAD_OWNER,
    FOREVER,
    HELD_END,
    NODE_CORES,
    NODE_HEALTHY,
    SOMEDAY,
    USED_HELD,
    Grid,
    Int64s,
)
from gschedd.core.kernels.bits import popcount_nb, put_nb
from gschedd.core.kernels.compiled import inlined, kernel


class Line(NamedTuple):
    """The events, and where the current search through them stands."""

    releases: Grid  # (RELEASE_, rows of what is held) by time
    spare: Grid  # as large, for sorting
    groups: Grid  # (GROUP_, groups of rows ahead)
    reach: Grid  # (groups, words) their nodes, as bitmaps
    room: Grid  # (n, LINE_) what runs leave free at the search's instant
    marks: Grid  # (MARK_, words of n)
    floors: Grid  # (FLOOR_, classes)
    booked: Grid  # (BOOK_, rows) reservations and claims, see book.py
    openings: Grid  # (OPEN_, q); no columns if nothing is special
    promises: Grid  # (PROMISE_, q) planned starts of the last pass
    promised: Int64s  # nodes of those
    todo: Int64s  # nodes to look at; as many as there are nodes and rows of what is held and ahead
    at: Int64s  # (AT_,)
    digits: Int64s  # (DIGITS,) how many rows have a digit


RELEASE_TIME: Final = 0
RELEASE_ROW: Final = 1  # of what is held
RELEASE_ROWS: Final = 2

GROUP_GUARD: Final = 0
GROUP_END: Final = 1
GROUP_FIRST: Final = 2  # its first row ahead
GROUP_COUNT: Final = 3  # how many rows follow one another
GROUP_OWNER: Final = 4  # as AHEAD_OWNER
GROUP_SPARE: Final = 5  # the most GPUs that its rows leave of a node; -1 = they take whole nodes
GROUP_BY_GUARD: Final = 6  # not of this group: the groups by rising guard
GROUP_BY_END: Final = 7  # the groups by rising end
GROUP_ROWS: Final = 8

LINE_GPUS: Final = 0  # mask
LINE_CORES: Final = 1
LINE_MEMORY: Final = 2
LINE_COLUMNS: Final = 3

MARK_MAY: Final = 0  # nodes that may take something new of the class
MARK_BLOCKED: Final = 1  # nodes of groups that leave too few GPUs through the window: not looked at
MARK_SPARE: Final = 2
MARK_ROWS: Final = 3

# The last planned start of a class: another of it with an equal or longer limit comes no earlier.
FLOOR_LIMIT: Final = 0  # 0 = none yet
FLOOR_START: Final = 1
FLOOR_CEILING: Final = 2  # as place.capacity_nb takes it
FLOOR_SWITCHES: Final = 3
FLOOR_ROWS: Final = 4

OPEN_FROM: Final = 0  # the job may run from then on: its reservation begins
OPEN_UNTIL: Final = 1  # and must be over by then
OPEN_CLAIM: Final = 2  # 1 = a claim is held for it
OPEN_ROWS: Final = 3

PROMISE_START: Final = 0
PROMISE_FIRST: Final = 1  # of its nodes
PROMISE_COUNT: Final = 2  # 0 = it has none
PROMISE_ROWS: Final = 3

AT_MERGED: Final = 0  # rows of what is held that are among the releases
AT_GROUPS: Final = 1
AT_RELEASE: Final = 2  # the next of the releases
AT_END: Final = 3  # the next of the groups by end
AT_GUARD: Final = 4  # the next of the groups by guard
AT_COLUMNS: Final = 5

_BITS: Final = 11  # of one digit
DIGITS: Final = 1 << _BITS
_FEW: Final = 48  # so few rows are sorted by insertion


@kernel
def merge_releases_nb(held: Grid, used: Int64s, line: Line, now: int) -> None:
    """Bring what has started since the last search in among the releases."""
    known, rows = line.at[AT_MERGED], used[USED_HELD]
    if rows == known:
        return
    for row in range(known, rows):
        line.releases[RELEASE_TIME, row], line.releases[RELEASE_ROW, row] = held[HELD_END, row], row
    if rows - known <= _FEW:
        _insert_nb(line.releases, known, rows)
    else:
        _radix_nb(line, known, rows, now)
    if known:
        _merge_nb(line, known, rows)
    line.at[AT_MERGED] = rows


@kernel
def _insert_nb(releases: Grid, first: int, end: int) -> None:
    """Sort the releases in [first, end) by insertion."""
    for i in range(first + 1, end):
        time, row = releases[RELEASE_TIME, i], releases[RELEASE_ROW, i]
        at = i
        while at > first and releases[RELEASE_TIME, at - 1] > time:
            releases[RELEASE_TIME, at], releases[RELEASE_ROW, at] = (
                releases[RELEASE_TIME, at - 1],
                releases[RELEASE_ROW, at - 1],
            )
            at -= 1
        releases[RELEASE_TIME, at], releases[RELEASE_ROW, at] = time, row


@kernel
def _radix_nb(line: Line, first: int, end: int, now: int) -> None:
    """Sort the releases in [first, end), all later than `now`, digit by digit from the lowest."""
    most = 0
    for i in range(first, end):
        if line.releases[RELEASE_TIME, i] < SOMEDAY:
            most = max(most, line.releases[RELEASE_TIME, i] - now)
    most += 1  # stands for SOMEDAY
    shift = 0
    source, target = line.releases, line.spare
    while most >> shift:
        _pass_nb(source, target, line.digits, first, end, now, most, shift)
        source, target = target, source
        shift += _BITS
    if shift // _BITS & 1:
        for i in range(first, end):
            line.releases[RELEASE_TIME, i] = line.spare[RELEASE_TIME, i]
            line.releases[RELEASE_ROW, i] = line.spare[RELEASE_ROW, i]


@kernel
def _pass_nb(source: Grid, target: Grid, digits: Int64s, first: int, end: int, now: int, most: int, shift: int) -> None:
    """Bring [first, end) in order of one digit, else as they stand."""
    for digit in range(DIGITS):
        digits[digit] = 0
    for i in range(first, end):
        digits[min(source[RELEASE_TIME, i] - now, most) >> shift & (DIGITS - 1)] += 1
    at = first
    for digit in range(DIGITS):
        at, digits[digit] = at + digits[digit], at
    for i in range(first, end):
        time = source[RELEASE_TIME, i]
        digit = min(time - now, most) >> shift & (DIGITS - 1)
        at = digits[digit]
        digits[digit] = at + 1
        target[RELEASE_TIME, at], target[RELEASE_ROW, at] = time, source[RELEASE_ROW, i]


@kernel
def _merge_nb(line: Line, known: int, rows: int) -> None:
    """Merge the sorted releases [0, known) and [known, rows), from the back."""
    for i in range(known, rows):
        line.spare[RELEASE_TIME, i], line.spare[RELEASE_ROW, i] = (
            line.releases[RELEASE_TIME, i],
            line.releases[RELEASE_ROW, i],
        )
    old, new, at = known - 1, rows - 1, rows - 1
    while new >= known:
        if old >= 0 and line.releases[RELEASE_TIME, old] > line.spare[RELEASE_TIME, new]:
            time, row = line.releases[RELEASE_TIME, old], line.releases[RELEASE_ROW, old]
            old -= 1
        else:
            time, row = line.spare[RELEASE_TIME, new], line.spare[RELEASE_ROW, new]
            new -= 1
        line.releases[RELEASE_TIME, at], line.releases[RELEASE_ROW, at] = time, row
        at -= 1


@kernel
def put_group_nb(nodes: Grid, ahead: Grid, line: Line, first: int, count: int) -> None:
    """Note `count` rows ahead from row `first` on, all of one guard, one end and one owner."""
    groups = line.groups
    guard, end = ahead[AHEAD_GUARD, first], ahead[AHEAD_END, first]
    number = line.at[AT_GROUPS]
    line.at[AT_GROUPS] = number + 1
    groups[GROUP_GUARD, number], groups[GROUP_END, number] = guard, end
    groups[GROUP_FIRST, number], groups[GROUP_COUNT, number] = first, count
    spare = -1
    for row in range(first, first + count):
        n = ahead[AHEAD_NODE, row]
        put_nb(line.reach, number, n)
        if ahead[AHEAD_CORES, row] < nodes[NODE_CORES, n]:
            spare = max(spare, popcount_nb(nodes[NODE_HEALTHY, n] & ~ahead[AHEAD_GPUS, row]))
    groups[GROUP_OWNER, number], groups[GROUP_SPARE, number] = ahead[AHEAD_OWNER, first], spare
    at = number
    while at > 0 and groups[GROUP_GUARD, groups[GROUP_BY_GUARD, at - 1]] > guard:
        groups[GROUP_BY_GUARD, at] = groups[GROUP_BY_GUARD, at - 1]
        at -= 1
    groups[GROUP_BY_GUARD, at] = number
    at = number
    while at > 0 and groups[GROUP_END, groups[GROUP_BY_END, at - 1]] > end:
        groups[GROUP_BY_END, at] = groups[GROUP_BY_END, at - 1]
        at -= 1
    groups[GROUP_BY_END, at] = number


@inlined
def next_instant_nb(line: Line, limit: int) -> int:
    """The next instant at which room for a window of this limit (ms) may change; FOREVER = it will not any more.

    A row that begins to be guarded at g is met by windows that start after g - limit.
    """
    t = FOREVER
    if line.at[AT_RELEASE] < line.at[AT_MERGED]:
        t = line.releases[RELEASE_TIME, line.at[AT_RELEASE]]
    if line.at[AT_END] < line.at[AT_GROUPS]:
        t = min(t, line.groups[GROUP_END, line.groups[GROUP_BY_END, line.at[AT_END]]])
    if limit < SOMEDAY and line.at[AT_GUARD] < line.at[AT_GROUPS]:
        t = min(t, line.groups[GROUP_GUARD, line.groups[GROUP_BY_GUARD, line.at[AT_GUARD]]] - limit + 1)
    return int(t)


@inlined
def first_later_nb(line: Line, t: int) -> int:
    """The first of the releases that comes after t."""
    low, high = 0, line.at[AT_MERGED]
    while low < high:
        middle = (low + high) >> 1
        if line.releases[RELEASE_TIME, middle] <= t:
            low = middle + 1
        else:
            high = middle
    return low
