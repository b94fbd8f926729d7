"""The walk over the queue: start what fits, plan the highest that wait, let lower jobs pass only where they delay none.

Within a pass room only shrinks, so a class that failed with some limit fails with every equal or longer one: it is not
searched again.
"""

from __future__ import annotations

from gschedd.core.kernels.ahead import plan_ahead_nb, window_end_nb
from gschedd.core.kernels.arrays import (
    AVOIDED,
    FOREVER,
    MUST,
    SOMEDAY,
    VERDICT_IMPOSSIBLE,
    VERDICT_NOT_AVAILABLE,
    VERDICT_PRIORITY,
    VERDICT_RESOURCES,
    VERDICT_STARTED,
    Ahead,
    ClassArrays,
    Held,
    Int64s,
    LinkArrays,
    NodeArrays,
    Outcome,
    QueueArrays,
    Scan,
)
from gschedd.core.kernels.compiled import kernel
from gschedd.core.kernels.links import subset_nb
from gschedd.core.kernels.place import place_nb, scan_nb
from gschedd.core.kernels.room import memory_need_nb, popcount_nb


@kernel
def walk_nb(
    nodes: NodeArrays,
    links: LinkArrays,
    classes: ClassArrays,
    queue: QueueArrays,
    held: Held,
    ahead: Ahead,
    scan: Scan,
    memo: Int64s,
    out: Outcome,
    now: int,
    urgent: int,
    planned_starts: int,
    strict: bool,
) -> int:
    """Decide the whole queue; fill `out`. Returns the row of the job that nobody could pass any more, or -1.

    memo: (4, classes) of class: 0 = not judged yet, 1 + verdict otherwise (could it ever run; could it run on what is
    up); the least limit that failed; the verdict then; the nodes found then. urgent: ms; a planned start closer than
    this is guarded as if it were now, because the ends it waits for may come at any moment.
    """
    left = planned_starts
    for j in range(queue.job.shape[0]):
        c = queue.cls[j]
        out.at[j] = out.used[0]
        if memo[0, c] == 0:
            memo[0, c] = 1 + _outlook_nb(nodes, classes, c)
            memo[1, c] = FOREVER
        outlook = memo[0, c] - 1
        if outlook == VERDICT_IMPOSSIBLE:
            out.verdict[j] = outlook
            continue
        if outlook == VERDICT_NOT_AVAILABLE:
            out.verdict[j] = outlook
        elif queue.limit[j] >= memo[1, c]:
            out.verdict[j], out.found[j] = memo[2, c], memo[3, c]
        elif _try_start_nb(nodes, links, classes, queue, j, held, ahead, scan, out, now):
            continue
        else:
            memo[1, c], memo[2, c], memo[3, c] = queue.limit[j], out.verdict[j], out.found[j]
        if strict:
            return j
        if left > 0 and outlook != VERDICT_NOT_AVAILABLE:
            left -= 1
            plan_ahead_nb(nodes, links, classes, queue, j, held, ahead, scan, out, now, urgent)
    return -1


@kernel
def _outlook_nb(nodes: NodeArrays, classes: ClassArrays, c: int) -> int:
    """VERDICT_STARTED if the nodes that are up could hold class c when idle, else why not."""
    row = classes.row[c]
    ever = ever_required = up = up_required = 0
    for n in range(nodes.up.shape[0]):
        eligible = classes.eligible[row, n]
        if not eligible or nodes.cores[n] < classes.cores[c] or nodes.memory[n] < memory_need_nb(nodes, classes, c, n):
            continue
        usable = nodes.gpus[n] & classes.usable[classes.gpu_row[c], n]
        if popcount_nb(usable) < classes.gpus[c]:
            continue
        ever += 1
        ever_required += 1 if eligible & MUST else 0
        if nodes.up[n] and not eligible & AVOIDED and popcount_nb(usable & nodes.healthy[n]) >= classes.gpus[c]:
            up += 1
            up_required += 1 if eligible & MUST else 0
    if ever < classes.least[c] or ever_required < classes.required[c]:
        return VERDICT_IMPOSSIBLE
    if up < classes.least[c] or up_required < classes.required[c]:
        return VERDICT_NOT_AVAILABLE
    return VERDICT_STARTED


@kernel
def _try_start_nb(
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
) -> bool:
    """Start job j whole if it fits and delays no planned start; else set its verdict."""
    c = queue.cls[j]
    least, most, required = classes.least[c], classes.most[c], classes.required[c]
    end = window_end_nb(now, queue.limit[j])
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
            out.found[j] = unplanned
            held_back = unplanned >= least and unplanned_required >= required
            out.verdict[j] = VERDICT_PRIORITY if held_back else VERDICT_RESOURCES
            return False
        count = least
    place_nb(nodes, links, classes, c, count, scan)
    _commit_nb(nodes, links, classes, queue, j, held, scan, out, now)
    return True


@kernel
def _commit_nb(
    nodes: NodeArrays,
    links: LinkArrays,
    classes: ClassArrays,
    queue: QueueArrays,
    j: int,
    held: Held,
    scan: Scan,
    out: Outcome,
    now: int,
) -> None:
    """Give job j the chosen nodes, in index order."""
    c = queue.cls[j]
    end = SOMEDAY if queue.limit[j] >= SOMEDAY else now + queue.limit[j]
    for n in range(nodes.up.shape[0]):
        if not scan.chosen[n]:
            continue
        gpus = subset_nb(links, nodes.links[n], scan.gpus[n], classes.gpus[c])
        memory = memory_need_nb(nodes, classes, c, n)
        nodes.free_gpus[n] &= ~gpus
        nodes.free_cores[n] -= classes.cores[c]
        nodes.free_memory[n] -= memory
        row = held.used[0]
        held.used[0] = row + 1
        held.link[row], held.head[n] = held.head[n], row
        held.end[row], held.cores[row], held.memory[row], held.gpus[row] = end, classes.cores[c], memory, gpus
        share = out.used[0]
        out.used[0] = share + 1
        out.share_node[share], out.share_gpus[share], out.share_memory[share] = n, gpus, memory
        out.nodes[j] += 1
    out.verdict[j] = VERDICT_STARTED
