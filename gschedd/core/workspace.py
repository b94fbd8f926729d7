"""What one pass writes on: grids made from a snapshot and the policy, in the order in which the walk takes them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gsched.values.ids import Instant
from gschedd.core.inputs import Policy
from gschedd.core.kernels.arrays import (
    NODE_RUNS,
    OUT_START,
    Classes,
    Grid,
    Int64s,
    Links,
    RunArrays,
    Tree,
)
from gschedd.core.snapshot import Snapshot


class Workspace(NamedTuple):
    """The walk's arguments; the names of the grids' rows are in kernels/arrays.py."""

    nodes: Grid  # (NODE_, n)
    tree: Tree
    links: Links
    classes: Classes
    queue: Grid  # (QUEUE_, q)
    held: Grid  # (HELD_, runs and starts)
    ahead: Grid  # (AHEAD_, planned)
    used: Int64s  # (USED_,)
    scan: Grid  # (SCAN_, n + 1)
    times: Int64s  # instants to try
    memo: Grid  # (MEMO_, classes)
    out: Grid  # (OUT_, q)
    shares: Grid  # (SHARE_, members of starts and planned starts)


def make_workspace(snapshot: Snapshot, policy: Policy, now: Instant) -> Workspace:
    """Copies of all that changes, and room for all that can come."""
    size, jobs = snapshot.nodes.up.size, snapshot.queue.job.size
    starts, planned = _most_members(snapshot), _most_planned(snapshot, policy)
    heads, held = _held(snapshot.runs, size, starts, now, policy.kill_time_s * 1000)
    out = _zeros(5, jobs)
    out[OUT_START] = -1
    columns = snapshot.classes
    nodes = np.stack([*snapshot.nodes, heads, np.full(size, -1, dtype=np.int64)])
    assert nodes.shape[0] == NODE_RUNS + 2
    return Workspace(
        nodes=nodes,
        tree=snapshot.tree,
        links=snapshot.links,
        classes=Classes(np.stack(columns[:-2]), columns.eligible, columns.usable),
        queue=np.stack([snapshot.queue.cls, snapshot.queue.limit]),
        held=held,
        ahead=_zeros(7, planned),
        used=np.array([snapshot.runs.node.size, 0, 0], dtype=np.int64),
        scan=_zeros(11, size + 1),
        times=np.zeros(1 + size + held.shape[1] + planned, dtype=np.int64),
        memo=_zeros(4, columns.least.size),
        out=out,
        shares=_zeros(3, starts + planned),
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


def _held(runs: RunArrays, size: int, starts: int, now: Instant, kill_ms: int) -> tuple[Int64s, Grid]:
    """(first row of each node's chain, the chains of what runs), with room for the starts.

    An end that has passed counts as `kill_ms` from now.
    """
    rows = runs.node.size
    grid = _zeros(5, rows + starts)
    order = np.argsort(runs.node, kind="stable")
    node = runs.node[order]
    after = np.append(np.where(node[1:] == node[:-1], order[1:], -1), -1)[:rows]
    begins = np.append(True, node[1:] != node[:-1])[:rows]
    heads = np.full(size, -1, dtype=np.int64)
    heads[node[begins]] = order[begins]
    grid[0, order] = after
    grid[1, :rows] = np.where(runs.end <= now, now + kill_ms, runs.end)
    grid[2:, :rows] = np.stack([runs.cores, runs.memory, runs.gpus])
    return heads, grid
