"""The cheapest victims: whom to stop so that one blocked job starts at once on what is free and what they leave.

Sets are compared by the highest rank of a victim, GPU-seconds lost since acknowledged checkpoints, number of victims,
number of units (nodes that elastic runs give up), level of the placement, domain. In each domain of the required level
units are let go in three orders until the job fits; then they are taken back, dearest first, where it still fits; then
one is swapped for cheaper ones. No order is good alone, and each is cheap. Where few could go, all sets are tried
(branch and bound), so the answer is the best.
"""

from __future__ import annotations

from gschedd.core.kernels.arrays import (
    AVOIDED,
    CLASS_CORES,
    CLASS_GPU_ROW,
    CLASS_GPUS,
    CLASS_LEAST,
    CLASS_REQUIRED,
    CLASS_ROW,
    MUST,
    NODE_AHEAD,
    NODE_CORES,
    NODE_HEALTHY,
    NODE_MEMORY,
    NODE_RUNS,
    NODE_UP,
    Classes,
    Grid,
    Tree,
)
from gschedd.core.kernels.compiled import kernel
from gschedd.core.kernels.freed import (
    ASK_BOUND,
    ASK_DOMAIN,
    ASK_DOMAINS,
    ASK_EXACT,
    ASK_FIRST,
    ASK_FITS,
    ASK_GPUS,
    ASK_LAST,
    ASK_LEAST,
    ASK_LEVEL,
    ASK_MARK,
    ASK_MUST,
    ASK_REQUIRED,
    ASK_WORK,
    BEST_FOUND,
    ORDERS,
    PART_BUCKET,
    PART_NODE,
    PLACE_AHEAD,
    PLACE_BUCKET,
    PLACE_CORES,
    PLACE_DOMAIN,
    PLACE_FILL,
    PLACE_FIRST,
    PLACE_FITS,
    PLACE_FITS_NOW,
    PLACE_GPUS,
    PLACE_LEVELS,
    PLACE_MEMORY,
    PLACE_MUST,
    PLACE_MUST_NOW,
    PLACE_OPEN,
    PLACE_RUNS,
    RUN_GONE,
    RUN_UNITS,
    UNIT_END,
    UNIT_FIRST,
    UNIT_GONE,
    UNIT_HEAD,
    UNIT_LEAST,
    UNIT_LOST,
    UNIT_ORDER,
    UNIT_RANK,
    UNIT_WAY,
    WAY_NONE,
    Search,
    enough_nb,
    flip_nb,
    free_gpus_nb,
    loss_allowed_nb,
    run_allowed_nb,
)
from gschedd.core.kernels.room import memory_need_nb
from gschedd.core.kernels.sets import NO_RANK, exact_nb, note_nb


@kernel
def look_nb(s: Search, nodes: Grid, tree: Tree, classes: Classes, c: int, level: int) -> None:
    """See the nodes, and the domains of a level, as a job of class c does before anybody is let go."""
    columns, places, ask = classes.columns, s.places, s.ask
    ask[ASK_LEAST], ask[ASK_REQUIRED], ask[ASK_GPUS] = (
        columns[CLASS_LEAST, c],
        columns[CLASS_REQUIRED, c],
        columns[CLASS_GPUS, c],
    )
    ask[ASK_DOMAINS], ask[ASK_LEVEL] = tree.domains[level], level
    for d in range(tree.domains[level] + 1):
        places[PLACE_FIRST, d] = tree.first[level, d] if d < tree.domains[level] else nodes.shape[1]
        places[PLACE_FITS_NOW, d] = places[PLACE_MUST_NOW, d] = places[PLACE_BUCKET, d] = 0
    for n in range(nodes.shape[1]):
        eligible = classes.eligible[columns[CLASS_ROW, c], n]
        places[PLACE_OPEN, n] = 1 if eligible and not eligible & AVOIDED and nodes[NODE_UP, n] else 0
        places[PLACE_MUST, n] = 1 if eligible & MUST else 0
        places[PLACE_GPUS, n] = nodes[NODE_HEALTHY, n] & classes.usable[columns[CLASS_GPU_ROW, c], n]
        places[PLACE_CORES, n] = nodes[NODE_CORES, n] - columns[CLASS_CORES, c]
        places[PLACE_MEMORY, n] = nodes[NODE_MEMORY, n] - memory_need_nb(nodes, classes, c, n)
        places[PLACE_RUNS, n], places[PLACE_AHEAD, n] = nodes[NODE_RUNS, n], nodes[NODE_AHEAD, n]
        d = tree.domain[level, n]
        places[PLACE_DOMAIN, n] = d
        for lower in range(tree.domains.shape[0]):
            places[PLACE_LEVELS + lower, n] = tree.domain[lower, n]
        places[PLACE_FITS, n] = 1 if places[PLACE_OPEN, n] and free_gpus_nb(s, n) >= 0 else 0
        places[PLACE_FITS_NOW, d] += places[PLACE_FITS, n]
        places[PLACE_MUST_NOW, d] += places[PLACE_FITS, n] * places[PLACE_MUST, n]


@kernel
def find_victims_nb(s: Search) -> bool:
    """Find the cheapest set of units whose going lets the job that looked start inside one domain of the level.

    UNIT_WAY says who may go. The set is left in UNIT_BEST, its cost in `ask`. False: there is none, or none was found.
    An empty set: it fits as it is.
    """
    ask = s.ask
    ask[BEST_FOUND], ask[ASK_BOUND] = 0, NO_RANK
    for d in range(ask[ASK_DOMAINS]):
        turn_to_nb(s, d)
        if enough_nb(s):
            note_nb(s)
    while not ask[BEST_FOUND]:
        if not _next_rank_nb(s):
            return False
        _cut_nb(s)
        for d in range(ask[ASK_DOMAINS]):
            turn_to_nb(s, d)
            _search_domain_nb(s)
    return True


@kernel
def turn_to_nb(s: Search, d: int) -> None:
    """Take domain d in hand. Nobody is let go."""
    places, ask = s.places, s.ask
    ask[ASK_DOMAIN] = d
    ask[ASK_FITS], ask[ASK_MUST] = places[PLACE_FITS_NOW, d], places[PLACE_MUST_NOW, d]
    ask[ASK_FIRST], ask[ASK_LAST] = places[PLACE_BUCKET, d], places[PLACE_BUCKET, d + 1]


@kernel
def _next_rank_nb(s: Search) -> bool:
    """Raise the bound to the next rank of a unit that may go; False if there is none."""
    units = s.units
    found = s.ask[ASK_BOUND]
    for u in range(units.shape[1]):
        rank = units[UNIT_RANK, u]
        more = units[UNIT_WAY, u] != WAY_NONE and rank > s.ask[ASK_BOUND]
        if more and (found == s.ask[ASK_BOUND] or rank < found):
            found = rank
    raised = found > s.ask[ASK_BOUND]
    s.ask[ASK_BOUND] = found
    return bool(raised)


@kernel
def _cut_nb(s: Search) -> None:
    """Cut each order into buckets by domain: units that may go, up to the bound, with a node there that lacks room.

    All units of an elastic run stand in a bucket together: past its least size it goes whole.
    """
    places, units, parts, count = s.places, s.units, s.parts, s.ask[ASK_DOMAINS]
    for d in range(count + 1):
        places[PLACE_BUCKET, d] = 0
    for o in range(-1, ORDERS):
        for d in range(count):
            places[PLACE_FILL, d] = places[PLACE_BUCKET, d]
        for i in range(units.shape[1]):
            u = units[UNIT_ORDER + o, i] if o >= 0 else i
            if units[UNIT_WAY, u] == WAY_NONE or units[UNIT_RANK, u] > s.ask[ASK_BOUND]:
                continue
            head, before = units[UNIT_HEAD, u], -1
            for p in range(units[UNIT_FIRST, head], units[UNIT_END, head + units[RUN_UNITS, head] - 1]):
                n = parts[PART_NODE, p]
                d = places[PLACE_DOMAIN, n]
                if d == before or not places[PLACE_OPEN, n] or places[PLACE_FITS, n]:
                    continue
                before = d
                if o < 0:
                    places[PLACE_BUCKET, d] += 1
                else:
                    parts[PART_BUCKET + o, places[PLACE_FILL, d]] = u
                    places[PLACE_FILL, d] += 1
        if o < 0:
            total = 0
            for d in range(count + 1):
                places[PLACE_BUCKET, d], total = total, total + places[PLACE_BUCKET, d]


@kernel
def _search_domain_nb(s: Search) -> None:
    """Improve on the best set by what the domain in hand has."""
    units, parts, first, last = s.units, s.parts, s.ask[ASK_FIRST], s.ask[ASK_LAST]
    for row in range(PART_BUCKET, PART_BUCKET + ORDERS):
        passed_over = 0
        for i in range(first, last):
            if enough_nb(s):
                break
            if not units[UNIT_GONE, parts[row, i]] and not _try_nb(s, parts[row, i]):
                passed_over += 1
        reached = enough_nb(s)
        if reached:
            s.ask[ASK_MARK] = 1
            _trim_nb(s, last)
            _swap_nb(s)
            note_nb(s)
        for i in range(first, last):
            if units[UNIT_GONE, parts[PART_BUCKET, i]]:
                flip_nb(s, parts[PART_BUCKET, i])
        if not reached and passed_over == 0:
            return  # not even if all of them go
    if last - first <= s.ask[ASK_EXACT]:
        exact_nb(s)


@kernel
def _try_nb(s: Search, u: int) -> bool:
    """Let u go on trial, with all of its run if too little would be left of it; nothing if an account forbids it."""
    units = s.units
    head = units[UNIT_HEAD, u]
    end = head + units[RUN_UNITS, head]
    flip_nb(s, u)
    units[UNIT_GONE, u] = 3
    allowed = loss_allowed_nb(s, u)
    if allowed and not run_allowed_nb(s, head):
        for v in range(head, end):
            if not units[UNIT_GONE, v]:
                flip_nb(s, v)
                units[UNIT_GONE, v] = 3
                allowed = allowed and loss_allowed_nb(s, v)
    for v in range(head, end):
        if units[UNIT_GONE, v] == 3:
            if allowed:
                units[UNIT_GONE, v] = 2
            else:
                flip_nb(s, v)
    return allowed


@kernel
def _trim_nb(s: Search, last: int) -> None:
    """Take back, dearest first, whoever is not needed of the bucket up to `last`; of those that have the mark."""
    units, parts, mark = s.units, s.parts, s.ask[ASK_MARK]
    for i in range(last - 1, s.ask[ASK_FIRST] - 1, -1):
        u = parts[PART_BUCKET, i]
        head = units[UNIT_HEAD, u]
        if units[UNIT_GONE, u] < mark:
            continue
        begin, end = u, u + 1
        if units[UNIT_LEAST, u] > 0 and units[RUN_GONE, head] == units[RUN_UNITS, head]:
            begin, end = head, head + units[RUN_UNITS, head]  # whole: does it do to shrink it?
        for v in range(begin, end):
            flip_nb(s, v)
            if not enough_nb(s):
                flip_nb(s, v)
                units[UNIT_GONE, v] = mark
        if not run_allowed_nb(s, head):
            for v in range(begin, end):
                if not units[UNIT_GONE, v]:
                    flip_nb(s, v)
                    units[UNIT_GONE, v] = mark


@kernel
def _swap_nb(s: Search) -> None:
    """Put cheaper units in the place of a dear one, while the work lasts. Elastic runs are left as they are."""
    units, parts, ask, first = s.units, s.parts, s.ask, s.ask[ASK_FIRST]
    for i in range(first, ask[ASK_LAST]):
        units[UNIT_GONE, parts[PART_BUCKET, i]] = min(units[UNIT_GONE, parts[PART_BUCKET, i]], 1)
    ask[ASK_MARK] = 2
    for i in range(ask[ASK_LAST] - 1, first - 1, -1):
        u = parts[PART_BUCKET, i]
        if units[UNIT_GONE, u] != 1 or units[UNIT_LEAST, u] > 0:
            continue
        flip_nb(s, u)
        k = first
        while k < i and ask[ASK_WORK] > 0 and not enough_nb(s):
            ask[ASK_WORK] -= 1
            if not units[UNIT_GONE, parts[PART_BUCKET, k]] and units[UNIT_LEAST, parts[PART_BUCKET, k]] == 0:
                _try_nb(s, parts[PART_BUCKET, k])
            k += 1
        better = enough_nb(s)
        if better:
            _trim_nb(s, k)
        lost = 0
        for m in range(first, k):
            v = parts[PART_BUCKET, m]
            lost += units[UNIT_LOST, v] if units[UNIT_GONE, v] == 2 else 0
        better = better and lost < units[UNIT_LOST, u]
        for m in range(first, k):
            v = parts[PART_BUCKET, m]
            if units[UNIT_GONE, v] == 2:
                if better:
                    units[UNIT_GONE, v] = 1
                else:
                    flip_nb(s, v)
        if not better:
            flip_nb(s, u)
        if ask[ASK_WORK] <= 0:
            return
