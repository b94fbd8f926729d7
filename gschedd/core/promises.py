"""Planned starts of the last pass that did not hold: each that moved later, and why.

A planned start moves later only for a cause named in `MoveCause`; which one is read off the nodes that were promised.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gsched.values.ids import Instant
from gschedd.core.booking import held_masks, reservation_of
from gschedd.core.inputs import MoveCause, Moved, Plan, PlannedStart
from gschedd.core.kernels.arrays import FOREVER, MEMORY_ALL, MEMORY_EXACT, SOMEDAY, Int64s
from gschedd.core.snapshot import Snapshot


def moved_later(snapshot: Snapshot, plan: Plan, now: Instant) -> tuple[Moved, ...]:
    """The promises that a plan did not keep, of jobs that still wait, in the order in which they were given."""
    if not snapshot.planned:
        return ()
    planned = {start.job: start.at for start in plan.planned}
    started = {start.job for start in plan.starts}
    ids = np.array([promise.job for promise in snapshot.planned], dtype=np.int64)
    rows = {int(snapshot.queue.job[row]): row for row in np.flatnonzero(np.isin(snapshot.queue.job, ids)).tolist()}
    moved = []
    for promise in snapshot.planned:
        at = planned.get(promise.job)
        if promise.job in rows and promise.job not in started and (at is None or at > promise.at):
            cause = _cause(snapshot, promise, rows[promise.job], now)
            moved.append(Moved(promise.job, promise.at, at, cause))
    return tuple(moved)


def _cause(snapshot: Snapshot, promise: PlannedStart, row: int, now: Instant) -> MoveCause:
    """What keeps the promised nodes from job `row` of the queue."""
    limit = int(snapshot.queue.limit[row])
    end = FOREVER if limit >= SOMEDAY else promise.at + limit
    index = {name: n for n, name in enumerate(snapshot.names)}
    nodes = [index.get(name, -1) for name in promise.nodes]
    c = int(snapshot.queue.cls[row])
    if min(nodes) < 0 or not snapshot.nodes.up[nodes].all():
        return MoveCause.NODE
    if not all(_holds(snapshot, c, n, np.zeros(0, dtype=np.int64)) for n in nodes):
        return MoveCause.NODE  # GPUs went out
    if _reserved(snapshot, row, nodes, promise.at, end):
        return MoveCause.ADMIN
    if promise.until is not None and end > promise.until:
        return MoveCause.LIMIT
    runs = snapshot.runs
    there = np.isin(runs.node, nodes) & ((runs.end > promise.at) | (runs.end <= now))
    before = np.flatnonzero(there & (snapshot.holds.started[runs.run] < promise.made))
    if all(_holds(snapshot, c, n, before[runs.node[before] == n]) for n in nodes):
        return MoveCause.ORDER  # only what has come since stands in the way
    return MoveCause.OVERRUN if (runs.end[before] <= now).any() else MoveCause.LIMIT


def _holds(snapshot: Snapshot, c: int, n: int, rows: Int64s) -> bool:
    """Whether node n holds a member of class c beside these rows of what runs hold."""
    classes, nodes, runs = snapshot.classes, snapshot.nodes, snapshot.runs
    gpus = int(nodes.healthy[n]) & int(classes.usable[classes.gpu_row[c], n])
    for row in rows.tolist():
        gpus &= ~int(runs.gpus[row])
    return bool(
        gpus.bit_count() >= classes.gpus[c]
        and nodes.cores[n] - runs.cores[rows].sum() >= classes.cores[c]
        and nodes.memory[n] - runs.memory[rows].sum() >= _memory_need(snapshot, c, n)
    )


def _reserved(snapshot: Snapshot, row: int, nodes: Sequence[int], start: int, end: int) -> bool:
    """Whether a reservation that is not the job's own meets the window, or its own is not for this window."""
    index = {name: n for n, name in enumerate(snapshot.names)}
    own = reservation_of(snapshot.requests[snapshot.queue.cls[row]], snapshot.reservations)
    if own == len(snapshot.reservations):
        return True
    if own >= 0:
        mine = snapshot.reservations[own]
        if mine.maint or mine.start > start or (mine.end is not None and mine.end < end):
            return True
    return any(
        number != own
        and reservation.start < end
        and (reservation.end is None or reservation.end > start)
        and not held_masks(reservation, index).keys().isdisjoint(nodes)
        for number, reservation in enumerate(snapshot.reservations)
    )


def _memory_need(snapshot: Snapshot, c: int, n: int) -> int:
    """Memory (MiB) that a member of class c takes on node n, as room.memory_need_nb has it."""
    classes, nodes = snapshot.classes, snapshot.nodes
    if classes.memory_rule[c] == MEMORY_EXACT:
        return int(classes.memory[c])
    memory, gpus = int(nodes.memory[n]), int(classes.gpus[c])
    if classes.memory_rule[c] == MEMORY_ALL:
        return memory
    if gpus:
        return memory * gpus // max(int(nodes.gpus[n]).bit_count(), 1)
    return memory * int(classes.cores[c]) // max(int(nodes.cores[n]), 1)
