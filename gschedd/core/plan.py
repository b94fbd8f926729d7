"""One pass: `plan(snapshot, policy, now) -> Plan`. The same three arguments always give the same plan."""

from __future__ import annotations

from itertools import groupby

import numpy as np
from msgspec.structs import replace

from gsched.values.ids import Instant, JobId, NodeName
from gsched.values.run import NodeShare
from gschedd.core.booking import inside_reservations
from gschedd.core.inputs import Plan, PlannedStart, Policy, Start
from gschedd.core.kernels.arrays import (
    CLASS_OTHER,
    CLASS_PART,
    OUT_AT,
    OUT_CLASS,
    OUT_NODES,
    OUT_START,
    OUT_VERDICT,
    SHARE_CLASS,
    SHARE_GPUS,
    SHARE_MEMORY,
    SHARE_NODE,
    SOMEDAY,
    VERDICT_BEHIND,
    VERDICT_STARTED,
    Grid,
)
from gschedd.core.kernels.book import book_nb
from gschedd.core.kernels.walk import walk_nb
from gschedd.core.order import ordered
from gschedd.core.preempt import preempt
from gschedd.core.promises import moved_later
from gschedd.core.snapshot import Snapshot
from gschedd.core.words import waits_of
from gschedd.core.workspace import make_workspace


def plan(snapshot: Snapshot, policy: Policy, now: Instant) -> Plan:
    """Decide one pass; never act. The snapshot is left as it is: all changes go to copies made here."""
    snapshot = inside_reservations(ordered(snapshot, policy, now))
    work = make_workspace(snapshot, policy, now)
    book_nb(work.nodes, work.bits, work.held, work.ahead, work.used, work.line, now)
    blocked_from = walk_nb(*work, now, policy.kill_time_s * 1000, policy.planned_starts, policy.strict_order)
    walked = as_plan(snapshot, work.classes.columns, work.out, work.shares, blocked_from, now)
    if snapshot.planned:
        walked = replace(walked, moved=moved_later(snapshot, walked, now))
    if not snapshot.queue.preempts.any():
        return walked
    preemptions, claims = preempt(snapshot, work, policy, now)
    return replace(walked, preemptions=preemptions, claims=claims)


def as_plan(snapshot: Snapshot, classes: Grid, out: Grid, shares: Grid, blocked_from: int, now: Instant) -> Plan:
    """What was decided, as values. blocked_from: the row of the job that nobody could pass any more; -1 = none."""
    if blocked_from >= 0:
        out[OUT_VERDICT, blocked_from + 1 :] = VERDICT_BEHIND
    queue = snapshot.queue
    started = out[OUT_VERDICT] == VERDICT_STARTED
    planned = np.flatnonzero((out[OUT_START] >= 0) & ~started)
    rows = shares[:, : int((out[OUT_AT] + out[OUT_NODES]).max(initial=0))].tolist()
    return Plan(
        starts=_starts(snapshot, classes, out[:, started], np.stack([queue.job, queue.cls])[:, started], rows),
        planned=tuple(_promise(snapshot, out, j, rows, now) for j in planned.tolist() if out[OUT_START, j] < SOMEDAY),
        waits=waits_of(snapshot, out, ~started, int(planned[0]) if planned.size else -1, blocked_from),
    )


def _promise(snapshot: Snapshot, out: Grid, j: int, rows: list[list[int]], now: Instant) -> PlannedStart:
    at, limit = int(out[OUT_START, j]), int(snapshot.queue.limit[j])
    until = None if limit >= SOMEDAY else Instant(at + limit)
    return PlannedStart(JobId(int(snapshot.queue.job[j])), Instant(at), _names(snapshot, out, j, rows), until, now)


def _starts(snapshot: Snapshot, classes: Grid, out: Grid, queue: Grid, rows: list[list[int]]) -> tuple[Start, ...]:
    """The jobs that start, in the order of the queue. out, queue: a column for each."""
    names, cores = snapshot.names, snapshot.classes.cores.tolist()
    node, gpus, memory, cls = (rows[row] for row in (SHARE_NODE, SHARE_GPUS, SHARE_MEMORY, SHARE_CLASS))
    starts = []
    for job, at, count in zip(queue[0].tolist(), out[OUT_AT].tolist(), out[OUT_NODES].tolist(), strict=True):
        mine = range(at, at + count)
        starts.append(
            Start(JobId(job), tuple([NodeShare(names[node[i]], cores[cls[i]], memory[i], gpus[i]) for i in mine]))
        )
    for i in np.flatnonzero((out[OUT_CLASS] != queue[1]) | (classes[CLASS_PART, out[OUT_CLASS]] >= 0)).tolist():
        classes_of = cls[out[OUT_AT, i] : out[OUT_AT, i] + out[OUT_NODES, i]]
        parts = tuple(len(list(part)) for _, part in groupby(classes_of))
        starts[i] = replace(
            starts[i],
            alternative=_alternative(classes, int(queue[1, i]), int(out[OUT_CLASS, i])),
            parts=parts if len(parts) > 1 else (),
        )
    return tuple(starts)


def _alternative(classes: Grid, first: int, taken: int) -> int:
    """Which of the job's alternatives the class `taken` is: 0 = its request itself."""
    count = 0
    while first != taken:
        first = int(classes[CLASS_OTHER, first])
        count += 1
    return count


def _names(snapshot: Snapshot, out: Grid, j: int, rows: list[list[int]]) -> tuple[NodeName, ...]:
    at, count = int(out[OUT_AT, j]), int(out[OUT_NODES, j])
    return tuple(snapshot.names[n] for n in rows[SHARE_NODE][at : at + count])
