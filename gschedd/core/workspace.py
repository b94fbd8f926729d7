"""What one pass writes on: grids made from a snapshot and the policy, in the order in which the walk takes them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gsched.values.ids import Instant
from gschedd.core.booking import booked_grid, booked_rows, openings, owners
from gschedd.core.expected import expected_ends
from gschedd.core.inputs import Policy
from gschedd.core.kernels.arrays import (
    AHEAD_ROWS,
    AVOIDED,
    BINDS_ALL,
    BINDS_SWITCHES,
    BITS_GE,
    BITS_ROWS,
    BITS_UP,
    CLASS_ANYWHERE,
    CLASS_LEVEL,
    CLASS_OTHER,
    CLASS_OWN,
    CLASS_PART,
    CLASS_PREFER,
    CLASS_REQUIRED,
    CLASS_ROWS,
    CLASS_SEGMENT,
    CLASS_SWITCHES,
    CLASS_SWITCHES_WAIT,
    FOREVER,
    HELD_ROWS,
    MEMO_ROWS,
    MOST_GE,
    MUST,
    NODE_AHEAD,
    NODE_AHEAD_GUARD,
    NODE_FREE_GPUS,
    NODE_ROWS,
    NODE_RUNS,
    NODE_UP,
    OUT_ROWS,
    OUT_START,
    SCAN_ROWS,
    SHARE_ROWS,
    SOMEDAY,
    TALLY_ROWS,
    Classes,
    Grid,
    Int64s,
    Links,
    NodeArrays,
    RunArrays,
    Tally,
    Tree,
)
from gschedd.core.kernels.bits import pack, words_of
from gschedd.core.kernels.events import Line
from gschedd.core.snapshot import Snapshot
from gschedd.core.to_come import make_line, promises_of


class Workspace(NamedTuple):
    """The walk's arguments; the names of the grids' rows are in kernels/arrays.py."""

    nodes: Grid  # (NODE_, n)
    bits: Grid  # (BITS_, words of n)
    tree: Tree
    links: Links
    classes: Classes
    queue: Grid  # (QUEUE_, q)
    held: Grid  # (HELD_, runs and starts)
    ahead: Grid  # (AHEAD_, planned)
    used: Int64s  # (USED_,)
    tally: Tally  # (TALLY_, levels, n)
    scan: Grid  # (SCAN_, n)
    line: Line
    memo: Grid  # (MEMO_, classes)
    out: Grid  # (OUT_, q)
    shares: Grid  # (SHARE_, members of starts and planned starts)


def make_workspace(snapshot: Snapshot, policy: Policy, now: Instant) -> Workspace:
    """Copies of all that changes, and room for all that can come."""
    size, jobs = snapshot.nodes.up.size, snapshot.queue.job.size
    binds = binding(snapshot, now)
    booked = booked_grid(booked_rows(snapshot, now))
    starts, planned = _most_members(snapshot), _most_planned(snapshot, policy) + booked.shape[1]
    ends = expected_ends(snapshot.runs, snapshot.holds, now, policy.kill_time_s * 1000)
    heads, held = _held(snapshot.runs, size, starts, ends)
    out = _zeros(OUT_ROWS, jobs)
    out[OUT_START] = -1
    nodes = _nodes(snapshot.nodes, heads)
    return Workspace(
        nodes=nodes,
        bits=_bits(nodes),
        tree=snapshot.tree,
        links=snapshot.links,
        classes=_classes(snapshot),
        queue=np.stack([snapshot.queue.cls, snapshot.queue.limit, binds]),
        held=held,
        ahead=_zeros(AHEAD_ROWS, planned),
        used=np.array([snapshot.runs.node.size, 0, 0, 0], dtype=np.int64),
        tally=np.zeros((TALLY_ROWS, snapshot.tree.domains.size, max(size, 1)), dtype=np.int64),
        scan=_zeros(SCAN_ROWS, size),
        line=make_line(
            size,
            held.shape[1],
            planned,
            policy.planned_starts + len(snapshot.reservations) + len(snapshot.claims),
            snapshot.classes.least.size,
            booked,
            openings(snapshot),
            promises_of(snapshot.planned, snapshot.queue.job, snapshot.names),
        ),
        memo=_zeros(MEMO_ROWS, snapshot.classes.least.size * (1 if binds.min(initial=1) else BINDS_ALL)),
        out=out,
        shares=_zeros(SHARE_ROWS, starts + planned),
    )


def _nodes(columns: NodeArrays, heads: Int64s) -> Grid:
    """The snapshot's columns and, for each node, its chains; no node has anything planned yet."""
    nodes = _zeros(NODE_ROWS, heads.size)
    nodes[:NODE_RUNS] = columns
    nodes[NODE_RUNS] = heads
    nodes[NODE_AHEAD] = -1
    nodes[NODE_AHEAD_GUARD] = FOREVER
    return nodes


def _bits(nodes: Grid) -> Grid:
    bits = _zeros(BITS_ROWS, words_of(nodes.shape[1]))
    bits[BITS_UP] = pack(nodes[NODE_UP] > 0)
    free = np.bitwise_count(nodes[NODE_FREE_GPUS]).astype(np.int64)
    bits[BITS_GE:] = pack(free >= np.arange(MOST_GE + 1)[:, None])
    return bits


def class_grid(snapshot: Snapshot) -> Grid:
    """(CLASS_, classes)."""
    grid = _zeros(CLASS_ROWS, snapshot.classes.least.size)
    grid[: CLASS_REQUIRED + 1] = snapshot.classes[:-2]
    grid[[CLASS_PART, CLASS_OTHER]] = -1
    grid[CLASS_OWN] = owners(snapshot)
    shapes, top = snapshot.shapes, snapshot.tree.domains.size - 1
    grid[CLASS_LEVEL] = _levels(snapshot, top)[shapes.level]
    grid[CLASS_PREFER] = _levels(snapshot, 0)[shapes.prefer]
    grid[CLASS_ANYWHERE], grid[CLASS_SWITCHES] = shapes.anywhere, shapes.switches
    grid[CLASS_SWITCHES_WAIT], grid[CLASS_SEGMENT] = shapes.wait, shapes.segment
    return grid


def _levels(snapshot: Snapshot, otherwise: int) -> Int64s:
    """The level of each of `shape_names`; `otherwise` for what is no level's name (any more)."""
    top = snapshot.tree.domains.size - 1  # no node may be on a switch, though the levels have names
    number = {name: min(level, top) for level, name in enumerate(snapshot.levels)}
    return np.array([number.get(name, otherwise) for name in snapshot.shape_names], dtype=np.int64)


def binding(snapshot: Snapshot, now: Instant) -> Int64s:
    """(q,) bits of what still binds each job: few leaf switches bind until it has waited long enough for them."""
    wait, queue = snapshot.shapes.wait, snapshot.queue
    binds = np.full(queue.job.size, BINDS_SWITCHES, dtype=np.int64)
    if (wait < SOMEDAY).any():
        binds[now - snapshot.factors.eligible[queue.row] >= wait[queue.cls]] = 0
    return binds


def _classes(snapshot: Snapshot) -> Classes:
    eligible = snapshot.classes.eligible
    return Classes(
        columns=class_grid(snapshot),
        eligible=eligible,
        usable=snapshot.classes.usable,
        may=pack(eligible > 0),
        must=pack(eligible & MUST > 0),
        avoided=pack(eligible & AVOIDED > 0),
    )


def _zeros(rows: int, size: int) -> Grid:
    return np.zeros((rows, size), dtype=np.int64)


def _most_members(snapshot: Snapshot) -> int:
    """Upper bound of the members that can start in one pass."""
    members = np.minimum(snapshot.classes.most, snapshot.nodes.up.size)[snapshot.queue.cls]
    rows = int(members.sum())
    if (snapshot.classes.cores > 0).all():  # every member then takes a core
        rows = min(rows, int(np.maximum(snapshot.nodes.free_cores, 0).sum()))
    return rows


def _most_planned(snapshot: Snapshot, policy: Policy) -> int:
    """Upper bound of the members of planned starts."""
    least = np.minimum(snapshot.classes.least, snapshot.nodes.up.size)[snapshot.queue.cls]
    return int(np.sort(least)[::-1][: policy.planned_starts].sum())


def _held(runs: RunArrays, size: int, starts: int, ends: Int64s) -> tuple[Int64s, Grid]:
    """(first row of each node's chain, the chains of what runs), with room for the starts."""
    rows = runs.node.size
    grid = _zeros(HELD_ROWS, rows + starts)
    order = np.argsort(runs.node, kind="stable")
    node = runs.node[order]
    after = np.append(np.where(node[1:] == node[:-1], order[1:], -1), -1)[:rows]
    begins = np.append(True, node[1:] != node[:-1])[:rows]
    heads = np.full(size, -1, dtype=np.int64)
    heads[node[begins]] = order[begins]
    grid[0, order] = after
    grid[1, :rows] = ends
    grid[2:, :rows] = np.stack([runs.cores, runs.memory, runs.gpus, runs.run, runs.node])
    return heads, grid
