"""The walk over the queue: start what fits, plan the highest that wait, let lower jobs pass only where they delay none.

Within a pass room only shrinks, so a class that failed with some limit fails with every equal or longer one: it is not
searched again.
"""

from __future__ import annotations

from gschedd.core.kernels.ahead import plan_ahead_nb, window_end_nb
from gschedd.core.kernels.arrays import (
    AVOIDED,
    CLASS_CORES,
    CLASS_GPU_ROW,
    CLASS_GPUS,
    CLASS_LEAST,
    CLASS_MOST,
    CLASS_REQUIRED,
    CLASS_ROW,
    FOREVER,
    HELD_CORES,
    HELD_END,
    HELD_GPUS,
    HELD_LINK,
    HELD_MEMORY,
    HELD_NODE,
    HELD_RUN,
    MEMO_FOUND,
    MEMO_LIMIT,
    MEMO_OUTLOOK,
    MEMO_VERDICT,
    MUST,
    NODE_CORES,
    NODE_FREE_CORES,
    NODE_FREE_GPUS,
    NODE_FREE_MEMORY,
    NODE_GPUS,
    NODE_HEALTHY,
    NODE_LINKS,
    NODE_MEMORY,
    NODE_RUNS,
    NODE_UP,
    OUT_AT,
    OUT_FOUND,
    OUT_NODES,
    OUT_VERDICT,
    QUEUE_CLS,
    QUEUE_LIMIT,
    SCAN_CHOSEN,
    SCAN_GPUS,
    SHARE_GPUS,
    SHARE_MEMORY,
    SHARE_NODE,
    SOMEDAY,
    USED_HELD,
    USED_SHARES,
    VERDICT_IMPOSSIBLE,
    VERDICT_NOT_AVAILABLE,
    VERDICT_PRIORITY,
    VERDICT_RESOURCES,
    VERDICT_STARTED,
    Classes,
    Grid,
    Int64s,
    Links,
    Tree,
)
from gschedd.core.kernels.bits import free_now_nb, popcount_nb
from gschedd.core.kernels.compiled import kernel
from gschedd.core.kernels.links import subset_nb
from gschedd.core.kernels.place import place_nb, scan_nb
from gschedd.core.kernels.room import memory_need_nb


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
    scan: Grid,
    times: Int64s,
    memo: Grid,
    out: Grid,
    shares: Grid,
    now: int,
    urgent: int,
    planned_starts: int,
    strict: bool,
) -> int:
    """Decide the whole queue; fill `out`. Returns the row of the job that nobody could pass any more, or -1.

    urgent: ms; a planned start closer than
    this is guarded as if it were now, because the ends it waits for may come at any moment.
    """
    left = planned_starts
    for j in range(queue.shape[1]):
        c = queue[QUEUE_CLS, j]
        out[OUT_AT, j] = used[USED_SHARES]
        if memo[MEMO_OUTLOOK, c] == 0:
            memo[MEMO_OUTLOOK, c] = 1 + _outlook_nb(nodes, classes, c)
            memo[MEMO_LIMIT, c] = FOREVER
        outlook = memo[MEMO_OUTLOOK, c] - 1
        if outlook == VERDICT_IMPOSSIBLE:
            out[OUT_VERDICT, j] = outlook
            continue
        if outlook == VERDICT_NOT_AVAILABLE:
            out[OUT_VERDICT, j] = outlook
        elif queue[QUEUE_LIMIT, j] >= memo[MEMO_LIMIT, c]:
            out[OUT_VERDICT, j], out[OUT_FOUND, j] = memo[MEMO_VERDICT, c], memo[MEMO_FOUND, c]
        elif _try_start_nb(nodes, bits, tree, links, classes, queue, j, held, ahead, used, scan, out, shares, now):
            continue
        else:
            memo[MEMO_LIMIT, c], memo[MEMO_VERDICT, c], memo[MEMO_FOUND, c] = (
                queue[QUEUE_LIMIT, j],
                out[OUT_VERDICT, j],
                out[OUT_FOUND, j],
            )
        if strict:
            return j
        if left > 0 and outlook != VERDICT_NOT_AVAILABLE:
            left -= 1
            plan_ahead_nb(
                nodes, bits, tree, links, classes, queue, j, held, ahead, used, scan, times, out, shares, now, urgent
            )
    return -1


@kernel
def _outlook_nb(nodes: Grid, classes: Classes, c: int) -> int:
    """VERDICT_STARTED if the nodes that are up could hold class c when idle, else why not."""
    row = classes.columns[CLASS_ROW, c]
    ever = ever_required = up = up_required = 0
    for n in range(nodes.shape[1]):
        eligible = classes.eligible[row, n]
        if (
            not eligible
            or nodes[NODE_CORES, n] < classes.columns[CLASS_CORES, c]
            or nodes[NODE_MEMORY, n] < memory_need_nb(nodes, classes, c, n)
        ):
            continue
        usable = nodes[NODE_GPUS, n] & classes.usable[classes.columns[CLASS_GPU_ROW, c], n]
        if popcount_nb(usable) < classes.columns[CLASS_GPUS, c]:
            continue
        ever += 1
        ever_required += 1 if eligible & MUST else 0
        if (
            nodes[NODE_UP, n]
            and not eligible & AVOIDED
            and popcount_nb(usable & nodes[NODE_HEALTHY, n]) >= classes.columns[CLASS_GPUS, c]
        ):
            up += 1
            up_required += 1 if eligible & MUST else 0
    if ever < classes.columns[CLASS_LEAST, c] or ever_required < classes.columns[CLASS_REQUIRED, c]:
        return VERDICT_IMPOSSIBLE
    if up < classes.columns[CLASS_LEAST, c] or up_required < classes.columns[CLASS_REQUIRED, c]:
        return VERDICT_NOT_AVAILABLE
    return VERDICT_STARTED


@kernel
def _try_start_nb(
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
    scan: Grid,
    out: Grid,
    shares: Grid,
    now: int,
) -> bool:
    """Start job j whole if it fits and delays no planned start; else set its verdict."""
    c = queue[QUEUE_CLS, j]
    least, most, required = (
        classes.columns[CLASS_LEAST, c],
        classes.columns[CLASS_MOST, c],
        classes.columns[CLASS_REQUIRED, c],
    )
    end = window_end_nb(now, queue[QUEUE_LIMIT, j])
    count = 0
    if most > least:  # more than the least only on what is planned for nobody
        found, found_required, _, _ = scan_nb(nodes, classes, c, held, ahead, now, FOREVER, now, scan)
        if found >= least and found_required >= required:
            count = min(found, most)
    if count == 0:
        found, found_required, unplanned, unplanned_required = scan_nb(
            nodes, classes, c, held, ahead, now, end, now, scan
        )
        if found < least or found_required < required:
            out[OUT_FOUND, j] = unplanned
            held_back = unplanned >= least and unplanned_required >= required
            out[OUT_VERDICT, j] = VERDICT_PRIORITY if held_back else VERDICT_RESOURCES
            return False
        count = least
    place_nb(nodes, tree, links, classes, c, count, scan)
    _commit_nb(nodes, bits, links, classes, queue, j, held, used, scan, out, shares, now)
    return True


@kernel
def _commit_nb(
    nodes: Grid,
    bits: Grid,
    links: Links,
    classes: Classes,
    queue: Grid,
    j: int,
    held: Grid,
    used: Int64s,
    scan: Grid,
    out: Grid,
    shares: Grid,
    now: int,
) -> None:
    """Give job j the chosen nodes, in index order."""
    c = queue[QUEUE_CLS, j]
    end = SOMEDAY if queue[QUEUE_LIMIT, j] >= SOMEDAY else now + queue[QUEUE_LIMIT, j]
    for n in range(nodes.shape[1]):
        if not scan[SCAN_CHOSEN, n]:
            continue
        gpus = subset_nb(links, nodes[NODE_LINKS, n], scan[SCAN_GPUS, n], classes.columns[CLASS_GPUS, c])
        memory = memory_need_nb(nodes, classes, c, n)
        before = popcount_nb(nodes[NODE_FREE_GPUS, n])
        nodes[NODE_FREE_GPUS, n] &= ~gpus
        free_now_nb(bits, n, before, before - classes.columns[CLASS_GPUS, c])
        nodes[NODE_FREE_CORES, n] -= classes.columns[CLASS_CORES, c]
        nodes[NODE_FREE_MEMORY, n] -= memory
        row = used[USED_HELD]
        used[USED_HELD] = row + 1
        held[HELD_LINK, row], nodes[NODE_RUNS, n] = nodes[NODE_RUNS, n], row
        held[HELD_END, row], held[HELD_CORES, row], held[HELD_MEMORY, row], held[HELD_GPUS, row] = (
            end,
            classes.columns[CLASS_CORES, c],
            memory,
            gpus,
        )
        held[HELD_RUN, row], held[HELD_NODE, row] = -1, n
        share = used[USED_SHARES]
        used[USED_SHARES] = share + 1
        shares[SHARE_NODE, share], shares[SHARE_GPUS, share], shares[SHARE_MEMORY, share] = n, gpus, memory
        out[OUT_NODES, j] += 1
    out[OUT_VERDICT, j] = VERDICT_STARTED
