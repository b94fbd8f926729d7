"""The preempt stage: after the walk, blocked jobs that may preempt look for victims, in the order of the queue.

A job preempts only if it would then start at once, whole, on what is free and what its victims leave: that is its
claim. A job that has a claim does not preempt again; a run is a victim once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from gsched.values.ids import Instant, JobId, RunKey, RunNo
from gsched.values.job import Request
from gsched.values.run import NodeShare
from gschedd.core.inputs import ClaimInput, Policy, Preemption
from gschedd.core.kernels.arrays import (
    AHEAD_OWNER,
    CLASS_GPUS,
    CLASS_LEAST,
    CLASS_MOST,
    FOREVER,
    HELD_CORES,
    HELD_GPUS,
    HELD_MEMORY,
    HELD_NODE,
    OUT_AT,
    OUT_NODES,
    OUT_VERDICT,
    SHARE_GPUS,
    SHARE_NODE,
    SOMEDAY,
    VERDICT_PRIORITY,
    VERDICT_RESOURCES,
    VERDICT_STARTED,
    Grid,
    Int64s,
)
from gschedd.core.kernels.claim import claim_nb
from gschedd.core.kernels.freed import (
    ACCOUNT_GROUPS,
    ACCOUNT_PARENT,
    ACCOUNT_RECLAIMED,
    ASK_CLOSE,
    ASK_NOW,
    ASK_ROW,
    ASK_SETS,
    ASK_WORK,
    BEST_LOST,
    BEST_RANK,
    BEST_UNITS,
    BEST_VICTIMS,
    GROUP_LOST,
    GROUP_ROWS,
    GROUP_USED,
    RUN_HOLD,
    RUN_UNITS,
    UNIT_BEST,
    UNIT_HEAD,
    UNIT_WAY,
    WAY_NONE,
)
from gschedd.core.kernels.rights import mark_branch_nb, rights_nb
from gschedd.core.kernels.victims import find_victims_nb, look_nb
from gschedd.core.snapshot import Snapshot
from gschedd.core.victim_arrays import SETS, WORK, make_accounts, make_search, runs_of
from gschedd.core.workspace import Workspace

BLOCKED: Final = (VERDICT_RESOURCES, VERDICT_PRIORITY)


def preempt(
    snapshot: Snapshot, work: Workspace, policy: Policy, now: Instant
) -> tuple[tuple[Preemption, ...], tuple[ClaimInput, ...]]:
    """Whom to stop for whom, and what is then kept for them. snapshot: in the order of the pass. work: as walked."""
    claimed = {claim.job for claim in snapshot.claims}
    jobs = [j for j in _looking(snapshot, work) if int(snapshot.queue.job[j]) not in claimed]
    if not jobs or policy.preemptors < 1:
        return (), ()
    stage = Stage(snapshot, work, policy, now)
    failed = _Failed()
    tries = 0
    for j in jobs:
        if tries == policy.preemptors:
            break
        if failed.covers(stage, j):
            continue
        tries += 1
        if stage.find(j):
            stage.keep(j)
            failed = _Failed()  # what victims leave beyond their preemptor's need is there for others
        else:
            failed.note(stage, j)
    return tuple(stage.preemptions), tuple(stage.claims)


def _looking(snapshot: Snapshot, work: Workspace) -> Iterator[int]:
    """Rows of blocked jobs that may look for victims."""
    blocked = np.isin(work.out[OUT_VERDICT], BLOCKED) & (snapshot.queue.preempts > 0)
    for j in np.flatnonzero(blocked).tolist():
        request = snapshot.requests[snapshot.queue.cls[j]]
        if _is_plain(request) and (not request.level or request.level in snapshot.levels):
            yield j


def _is_plain(request: Request) -> bool:
    """Whether the search can judge it: whole GPUs, nodes that only a level binds; no reservation holds room for it."""
    whole = request.need.gpu_milli == 1000 and not request.need.mig_profile
    return whole and request.switches == 0 and request.segment <= 1 and not request.reservation


class _Failed:
    """Searches that found nothing: then no job of the same shape finds anything that is as large and as long."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, ...], list[tuple[int, int]]] = {}

    def covers(self, stage: Stage, j: int) -> bool:
        least, limit = stage.size_of(j)
        return any(least >= small and limit >= short for small, short in self._seen.get(stage.shape_of(j), ()))

    def note(self, stage: Stage, j: int) -> None:
        self._seen.setdefault(stage.shape_of(j), []).append(stage.size_of(j))


class Stage:
    """The arrays of one pass's searches. What the walk used is left as it was."""

    def __init__(self, snapshot: Snapshot, work: Workspace, policy: Policy, now: Instant) -> None:
        self._snapshot, self._work, self._policy, self._now = snapshot, work, policy, now
        self._nodes = work.nodes.copy()
        members = work.classes.columns[CLASS_LEAST, snapshot.queue.cls[list(_looking(snapshot, work))]]
        room = int(np.sort(np.minimum(members, work.nodes.shape[1]))[-policy.preemptors :].sum())
        self._rows = work.held.shape[1]  # where rows of claims begin
        held = np.pad(work.held, ((0, 0), (0, room)))
        self._accounts = make_accounts(snapshot.accounts)
        masks = dict(snapshot.groups)
        self._groups = np.array([masks[group] for group in self._accounts.groups], dtype=np.int64)
        self._groups = self._groups.reshape(len(self._accounts.groups), work.nodes.shape[1])
        self._numbers = np.array([self._accounts.number.get(n, -1) for n in (*snapshot.account_names, "")])
        runs = runs_of(snapshot.holds, snapshot.account_names, self._accounts, now)
        ahead = _ahead(snapshot, work)
        self.search = make_search(runs, snapshot.runs, held, ahead, self._accounts, self._groups, work.tree, now)
        self._gone = np.zeros(self.search.units.shape[1], dtype=np.bool_)
        self.preemptions: list[Preemption] = []
        self.claims: list[ClaimInput] = []
        if self._groups.size:
            self._count_this_pass()

    def size_of(self, j: int) -> tuple[int, int]:
        queue = self._snapshot.queue
        return int(self._work.classes.columns[CLASS_LEAST, queue.cls[j]]), int(queue.limit[j])

    def shape_of(self, j: int) -> tuple[int, ...]:
        """All that decides who may go and where the job fits, but for its size."""
        queue = self._snapshot.queue
        column = self._work.classes.columns[:, queue.cls[j]].tolist()
        column[CLASS_LEAST] = column[CLASS_MOST] = 0
        return *column, self._level(int(queue.cls[j])), int(queue.rank[j]), int(queue.account[j])

    def find(self, j: int) -> bool:
        """Search for job j; True if it fits once the units in UNIT_BEST have gone."""
        s, work, queue = self.search, self._work, self._snapshot.queue
        c, limit = int(queue.cls[j]), int(queue.limit[j])
        close = FOREVER if limit >= SOMEDAY else self._now + limit
        s.ask[ASK_NOW], s.ask[ASK_CLOSE], s.ask[ASK_ROW] = self._now, close, j
        s.ask[ASK_WORK], s.ask[ASK_SETS] = WORK, SETS
        within = mark_branch_nb(s.accounts, int(self._numbers[queue.account[j]]), self._needs(c))
        limits = self._policy.min_run_s * 1000, self._policy.max_preemptions
        rights_nb(s.units, s.accounts, int(queue.rank[j]), within, self._now, *limits)
        s.units[UNIT_WAY, self._gone] = WAY_NONE
        look_nb(s, self._nodes, work.tree, work.classes, c, self._level(c))
        return find_victims_nb(s)

    def _level(self, c: int) -> int:
        """The level of which one domain must hold class c."""
        level, top = self._snapshot.requests[c].level, self._work.tree.domains.size - 1
        return min(self._snapshot.levels.index(level), top) if level else top

    def keep(self, j: int) -> None:
        """Record what was found for job j, and take its room out of what later jobs see."""
        s, work, snapshot = self.search, self._work, self._snapshot
        c, job = int(snapshot.queue.cls[j]), JobId(int(snapshot.queue.job[j]))
        cost = tuple(int(s.ask[row]) for row in (BEST_RANK, BEST_LOST, BEST_VICTIMS))
        victims = s.ask[BEST_UNITS] > 0
        going = np.flatnonzero(s.units[UNIT_BEST])
        first, self._rows = self._rows, self._rows + int(work.classes.columns[CLASS_LEAST, c])
        claim_nb(s, self._nodes, work.tree, work.links, work.classes, c, first)
        for head, count in zip(*np.unique(s.units[UNIT_HEAD, going], return_counts=True), strict=True):
            hold, units = s.units[RUN_HOLD, head], int(s.units[RUN_UNITS, head])
            key = RunKey(JobId(int(snapshot.holds.job[hold])), RunNo(int(snapshot.holds.no[hold])))
            self.preemptions.append(Preemption(key, job, cost, units - int(count)))
            self._gone[head : head + units] = True
        rows = s.held[:, first : self._rows]
        rows = rows[:, np.argsort(rows[HELD_NODE])]
        if victims:  # else it fits on what others' victims leave: the next pass starts it
            self.claims.append(
                ClaimInput(job, self._shares(rows), Instant(self._now + self._policy.claim_time_s * 1000))
            )
        for g in range(len(self._groups)):
            s.accounts[ACCOUNT_GROUPS + GROUP_ROWS * g + GROUP_LOST] = 0
        s.accounts[ACCOUNT_RECLAIMED] = 0
        self._use(int(self._numbers[snapshot.queue.account[j]]), rows[HELD_NODE], rows[HELD_GPUS])

    def _shares(self, rows: Grid) -> tuple[NodeShare, ...]:
        columns = (rows[row].tolist() for row in (HELD_NODE, HELD_CORES, HELD_MEMORY, HELD_GPUS))
        return tuple(
            NodeShare(self._snapshot.names[n], cores, memory, gpus)
            for n, cores, memory, gpus in zip(*columns, strict=True)
        )

    # Accounts.

    def _needs(self, c: int) -> Grid:
        """(2, groups): thousandths of a GPU that class c may take of each group; 1 where it takes no other GPUs."""
        columns, work = self._work.classes.columns, self._work
        classes = self._snapshot.classes
        usable = np.where(work.classes.eligible[classes.row[c]] > 0, work.classes.usable[classes.gpu_row[c]], 0)
        wanted = columns[CLASS_LEAST, c] * columns[CLASS_GPUS, c] * 1000
        needs = np.zeros((2, len(self._groups)), dtype=np.int64)
        for g, mask in enumerate(self._groups):
            needs[0, g] = wanted if (usable & mask).any() else 0
            needs[1, g] = not (usable & ~mask).any()
        return needs

    def _use(self, account: int, node: Int64s, gpus: Int64s) -> None:
        """An account, and those above it, use these GPUs too."""
        amounts = [1000 * int(np.bitwise_count(gpus & mask[node]).sum()) for mask in self._groups]
        accounts = self.search.accounts
        while account >= 0:
            for g, amount in enumerate(amounts):
                accounts[ACCOUNT_GROUPS + GROUP_ROWS * g + GROUP_USED, account] += amount
            account = int(accounts[ACCOUNT_PARENT, account])

    def _count_this_pass(self) -> None:
        """Accounts use what this pass starts, and what claims keep for their jobs."""
        out, shares, queue = self._work.out, self._work.shares, self._snapshot.queue
        for j in np.flatnonzero(out[OUT_VERDICT] == VERDICT_STARTED).tolist():
            rows = slice(out[OUT_AT, j], out[OUT_AT, j] + out[OUT_NODES, j])
            self._use(int(self._numbers[queue.account[j]]), shares[SHARE_NODE, rows], shares[SHARE_GPUS, rows])
        index = {name: n for n, name in enumerate(self._snapshot.names)}
        for claim in self._snapshot.claims:
            waiting = np.flatnonzero((queue.job == claim.job) & (out[OUT_VERDICT] != VERDICT_STARTED))
            held = [share for share in claim.shares if share.node in index]
            node = np.array([index[share.node] for share in held], dtype=np.int64)
            for j in waiting.tolist():
                gpus = np.array([share.gpus for share in held], dtype=np.int64)
                self._use(int(self._numbers[queue.account[j]]), node, gpus)


def _ahead(snapshot: Snapshot, work: Workspace) -> Grid:
    """What is planned and kept. What a claim keeps for its job is nobody else's, whatever their order."""
    ahead = work.ahead.copy()
    if snapshot.claims:
        claimed = np.flatnonzero(np.isin(snapshot.queue.job, [claim.job for claim in snapshot.claims]))
        ahead[AHEAD_OWNER, np.isin(ahead[AHEAD_OWNER], claimed)] = -1
    return ahead
