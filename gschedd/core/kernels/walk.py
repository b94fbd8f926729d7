"""The walk over the queue: start what fits, plan the highest that wait, let lower jobs pass only where they delay none.

Within a pass room only shrinks, so a class that failed with some limit fails with every equal or longer one: it is not
searched again.
"""

from __future__ import annotations

from gschedd.core.kernels.ahead import has_claim_nb, opening_nb, plan_ahead_nb
from gschedd.core.kernels.arrays import (
    CLASS_OTHER,
    MEMO_FOUND,
    MEMO_LIMIT,
    MEMO_OUTLOOK,
    MEMO_VERDICT,
    OUT_AT,
    OUT_CLASS,
    OUT_FOUND,
    OUT_NODES,
    OUT_VERDICT,
    QUEUE_CLS,
    QUEUE_LIMIT,
    USED_SHARES,
    VERDICT_IMPOSSIBLE,
    VERDICT_NOT_AVAILABLE,
    VERDICT_RESERVATION,
    VERDICT_STARTED,
    Classes,
    Grid,
    Int64s,
    Links,
    Tally,
    Tree,
)
from gschedd.core.kernels.compiled import kernel
from gschedd.core.kernels.events import Line
from gschedd.core.kernels.outlook import outlook_nb
from gschedd.core.kernels.place import memo_row_nb
from gschedd.core.kernels.start import try_start_nb


@kernel
def walk_nb(
    nodes: Grid,
    bits: Grid,
    tree: Tree,
    links: Links,
    classes: Classes,
    queue: Grid,
    held: Grid,
    ahead: Grid,
    used: Int64s,
    tally: Tally,
    scan: Grid,
    line: Line,
    memo: Grid,
    out: Grid,
    shares: Grid,
    now: int,
    urgent: int,
    planned_starts: int,
    strict: bool,
) -> int:
    """Decide the whole queue; fill `out`. Returns the row of the job that nobody could pass any more, or -1.

    urgent: ms; a planned start closer than this is guarded as if it were now: the ends it waits for may come any time.
    """
    for j in range(queue.shape[1]):
        out[OUT_AT, j] = used[USED_SHARES]
        c = _first_class_nb(queue, line, out, j, now)
        while c >= 0:  # the alternatives
            m = memo_row_nb(classes, memo, queue, j, c)
            if memo[MEMO_OUTLOOK, m] == 0 or queue[QUEUE_LIMIT, j] < memo[MEMO_LIMIT, m] or has_claim_nb(line, j):
                verdict, found = try_start_nb(
                    nodes, bits, tree, links, classes, queue, j, c, held, ahead, used, tally, scan, shares, now
                )
                if verdict == VERDICT_STARTED:
                    out[OUT_VERDICT, j], out[OUT_FOUND, j], out[OUT_CLASS, j] = verdict, 0, c
                    out[OUT_NODES, j] = used[USED_SHARES] - out[OUT_AT, j]
                    break
                _note_nb(nodes, bits, tree, classes, c, tally, memo, m, verdict, found, queue[QUEUE_LIMIT, j])
            if memo[MEMO_VERDICT, m] < out[OUT_VERDICT, j]:
                out[OUT_VERDICT, j], out[OUT_FOUND, j] = memo[MEMO_VERDICT, m], memo[MEMO_FOUND, m]
            c = classes.columns[CLASS_OTHER, c]
        if out[OUT_VERDICT, j] == VERDICT_STARTED or out[OUT_VERDICT, j] == VERDICT_IMPOSSIBLE:
            continue
        if strict:
            return j
        if planned_starts == 0 or out[OUT_VERDICT, j] == VERDICT_NOT_AVAILABLE:
            continue
        planned_starts -= plan_ahead_nb(
            nodes,
            bits,
            tree,
            links,
            classes,
            queue,
            j,
            held,
            ahead,
            used,
            tally,
            scan,
            line,
            out,
            shares,
            now,
            urgent,
        )
    return -1


@kernel
def _first_class_nb(queue: Grid, line: Line, out: Grid, j: int, now: int) -> int:
    """The class to try job j as first; -1 if it may not start now, by its reservation. Begins its verdict."""
    opens, last = opening_nb(line, j, queue[QUEUE_LIMIT, j], now)
    if opens > now or last < now:
        out[OUT_VERDICT, j] = VERDICT_RESERVATION
        return -1
    out[OUT_VERDICT, j] = VERDICT_IMPOSSIBLE
    return int(queue[QUEUE_CLS, j])


@kernel
def _note_nb(
    nodes: Grid,
    bits: Grid,
    tree: Tree,
    classes: Classes,
    c: int,
    tally: Tally,
    memo: Grid,
    m: int,
    verdict: int,
    found: int,
    limit: int,
) -> None:
    """Note that a class could not start with that limit, or, by its outlook, that it cannot with any."""
    if memo[MEMO_OUTLOOK, m] == 0:
        memo[MEMO_OUTLOOK, m] = 1 + outlook_nb(nodes, bits, tree, classes, c, tally)
    memo[MEMO_LIMIT, m], memo[MEMO_VERDICT, m], memo[MEMO_FOUND, m] = limit, verdict, found
    if memo[MEMO_OUTLOOK, m] != 1 + VERDICT_STARTED:
        memo[MEMO_LIMIT, m], memo[MEMO_VERDICT, m], memo[MEMO_FOUND, m] = -1, memo[MEMO_OUTLOOK, m] - 1, 0
