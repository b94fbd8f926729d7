"""Runs and accounts as the search for victims takes them: made once a pass, when the first job looks for victims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from gsched.values.ids import Instant
from gschedd.core.inputs import AccountInput
from gschedd.core.kernels.arrays import HELD_END, Grid, HoldArrays, Int64s, RunArrays, Tree
from gschedd.core.kernels.freed import (
    ACCOUNT_GROUPS,
    ACCOUNT_PARENT,
    ASK_EXACT,
    ASK_SCALE,
    ASK_SETS,
    ASK_SIZE,
    ASK_WORK,
    GROUP_GUARANTEE,
    GROUP_ROWS,
    GROUP_USED,
    ORDERS,
    PART_ENDS,
    PART_HELD,
    PART_NODE,
    PART_ROWS,
    PLACE_LEVELS,
    RUN_BORROWED,
    RUN_HOLD,
    RUN_PREEMPTABLE,
    RUN_PREEMPTED,
    RUN_STARTED,
    RUN_UNITS,
    UNIT_ACCOUNT,
    UNIT_END,
    UNIT_FIRST,
    UNIT_HEAD,
    UNIT_LEAST,
    UNIT_LOST,
    UNIT_ORDER,
    UNIT_RANK,
    UNIT_USES,
    Search,
)

WORK: Final = 8_000  # steps that a search may take in swaps: about 1 ms
SETS: Final = 60_000  # and where it tries all sets: about 3 ms
EXACT_UNITS: Final = 24  # up to so many candidates in a domain, all sets are tried
LONGEST_S: Final = 10 * 365 * 24 * 3600  # more is not told apart: sums of prices stay within 63 bits


class Accounts(NamedTuple):
    """The tree of accounts, parents before children, and the groups of models that guarantees are given for."""

    number: dict[str, int]
    groups: tuple[str, ...]
    grid: Grid  # (ACCOUNT_ + 3 groups, accounts), nothing used yet


def make_accounts(accounts: Sequence[AccountInput]) -> Accounts:
    """An account whose parent is not known stands under the root."""
    by_name = {account.name: account for account in accounts}
    number: dict[str, int] = {}

    def enter(name: str) -> None:
        if name in by_name and name not in number:
            enter(by_name[name].parent)
            number.setdefault(name, len(number))

    for name in sorted(by_name):
        enter(name)
    groups = tuple(sorted({group for account in accounts for group, _ in account.guarantee}))
    grid = np.zeros((ACCOUNT_GROUPS + GROUP_ROWS * len(groups), len(number)), dtype=np.int64)
    grid[ACCOUNT_PARENT] = [number.get(by_name[name].parent, -1) for name in number]
    for g, group in enumerate(groups):
        row = ACCOUNT_GROUPS + GROUP_ROWS * g + GROUP_GUARANTEE
        grid[row] = [dict(by_name[name].guarantee).get(group, -1) for name in number]
    return Accounts(number, groups, grid)


class Runs(NamedTuple):
    """Live runs, a row for each of the holds. One that has not started counts as started now."""

    job: Int64s
    number: Int64s
    rank: Int64s
    account: Int64s  # in Accounts; -1 = none that is known
    preemptable: Int64s
    borrowed: Int64s
    started: Int64s  # instant
    saved: Int64s  # the last checkpoint that was acknowledged, or else the start
    preempted: Int64s  # times
    least: Int64s  # nodes an elastic run can go on with; 0 = it goes whole


def runs_of(holds: HoldArrays, names: Sequence[str], accounts: Accounts, now: Instant) -> Runs:
    """names: of the accounts, by the numbers that the holds have."""
    started = np.where(holds.started < 0, now, holds.started)
    number = np.array([accounts.number.get(name, -1) for name in (*names, "")], dtype=np.int64)
    return Runs(
        job=holds.job,
        number=holds.no,
        rank=holds.rank,
        account=number[np.maximum(holds.account, -1)],
        preemptable=holds.preemptable,
        borrowed=1 - holds.in_guarantee,
        started=started,
        saved=np.where(holds.checkpoint < 0, started, np.maximum(holds.checkpoint, started)),
        preempted=holds.preempted,
        least=holds.elastic_least,
    )


def make_search(
    runs: Runs, rows: RunArrays, held: Grid, ahead: Grid, accounts: Accounts, groups: Grid, tree: Tree, now: int
) -> Search:
    """Units of the runs, in three orders, and room to search in.

    rows: what the runs hold; row r of it is row r of `held`. groups: (groups, nodes) masks of the GPUs of each group of
    models.
    """
    sorted_runs = np.lexsort((runs.number, runs.job))
    place = np.empty_like(sorted_runs)
    place[sorted_runs] = np.arange(sorted_runs.size)
    order = np.lexsort((rows.node, place[rows.run]))
    run, node = rows.run[order], rows.node[order]
    gpus = np.bitwise_count(rows.gpus[order]).astype(np.int64)
    other = run[1:] != run[:-1]
    fresh = np.append(True, other | ((runs.least[run[1:]] > 0) & (node[1:] != node[:-1])))[: order.size]
    first = np.flatnonzero(fresh)
    size = first.size
    of = run[first]
    units = np.zeros((UNIT_USES + len(groups), size), dtype=np.int64)
    head = np.flatnonzero(np.append(True, of[1:] != of[:-1])[:size])
    units[UNIT_HEAD] = np.repeat(head, np.diff(np.append(head, size)))
    units[RUN_UNITS, head] = np.diff(np.append(head, size))
    units[UNIT_FIRST], units[UNIT_END] = first, np.append(first[1:], order.size)[:size]
    units[UNIT_RANK], units[UNIT_ACCOUNT], units[UNIT_LEAST] = runs.rank[of], runs.account[of], runs.least[of]
    units[RUN_HOLD], units[RUN_STARTED], units[RUN_PREEMPTED] = of, runs.started[of], runs.preempted[of]
    units[RUN_PREEMPTABLE], units[RUN_BORROWED] = runs.preemptable[of], runs.borrowed[of]
    count = _sums(gpus, first)
    age = np.clip(now - runs.saved[of], 0, LONGEST_S * 1000)
    units[UNIT_LOST] = count * age // 1000
    for g, mask in enumerate(groups):
        units[UNIT_USES + g] = 1000 * _sums(np.bitwise_count(rows.gpus[order] & mask[node]).astype(np.int64), first)
    units[UNIT_ORDER : UNIT_ORDER + ORDERS] = _orders(units[UNIT_LOST], count, first, node, groups.shape[1])
    parts = np.zeros((PART_ROWS, 1 + max(order.size, _entries(units, tree))), dtype=np.int64)
    parts[PART_HELD, : order.size], parts[PART_NODE, : order.size] = order, node
    parts[PART_ENDS, : order.size] = held[HELD_END, order]
    ask = np.zeros(ASK_SIZE, dtype=np.int64)
    ask[ASK_SCALE], ask[ASK_EXACT] = head.size + 1, EXACT_UNITS
    ask[ASK_WORK], ask[ASK_SETS] = WORK, SETS
    places = np.zeros((PLACE_LEVELS + tree.domains.size, groups.shape[1] + 1), dtype=np.int64)
    return Search(places, held, ahead, units, parts, _used(accounts.grid, units), ask)


def _entries(units: Grid, tree: Tree) -> int:
    """Upper bound of the entries of one order's buckets: units of a run, times domains that it touches."""
    head = units[RUN_UNITS] > 0
    last = np.flatnonzero(head) + units[RUN_UNITS, head] - 1
    rows = units[UNIT_END, last] - units[UNIT_FIRST, head]
    return int((units[RUN_UNITS, head] * np.minimum(rows, tree.domains.max(initial=1))).sum())


def _sums(values: Int64s, first: Int64s) -> Int64s:
    """Of each unit."""
    return np.add.reduceat(values, first) if first.size else np.zeros(0, dtype=np.int64)


def _orders(lost: Int64s, gpus: Int64s, first: Int64s, node: Int64s, nodes: int) -> Grid:
    """Units by price, by price per GPU, and by price of the cheapest node each sits on; ties by price, then number.

    There the price of a unit over several nodes is shared by them, and a node costs what all that sits on it costs.
    """
    size = np.diff(np.append(first, node.size))
    of_node = np.zeros(nodes, dtype=np.int64)
    np.add.at(of_node, node, np.repeat(lost // np.maximum(size, 1) + 1, size))
    cheapest = np.minimum.reduceat(of_node[node], first) if first.size else np.zeros(0, dtype=np.int64)
    by_price = np.argsort(lost, kind="stable")
    keys = lost // np.maximum(gpus, 1), cheapest
    return np.stack([by_price, *(by_price[np.argsort(key[by_price], kind="stable")] for key in keys)])


def _used(grid: Grid, units: Grid) -> Grid:
    """The accounts with what their runs and those of all accounts below them hold."""
    used = grid.copy()
    has = units[UNIT_ACCOUNT] >= 0
    for g, use in enumerate(units[UNIT_USES:]):
        row = used[ACCOUNT_GROUPS + GROUP_ROWS * g + GROUP_USED]
        np.add.at(row, units[UNIT_ACCOUNT, has], use[has])
        for a in range(used.shape[1] - 1, -1, -1):  # parents come before their children
            if used[ACCOUNT_PARENT, a] >= 0:
                row[used[ACCOUNT_PARENT, a]] += row[a]
    return used
