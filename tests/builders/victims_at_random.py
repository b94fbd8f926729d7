"""Random small clusters full of runs and one job that looks for victims, as arrays and for the plain twin."""

from __future__ import annotations

from random import Random

import numpy as np
from msgspec import Struct

from gsched.values.ids import Instant, JobId, NodeName, RunKey, RunNo
from gsched.values.run import NodeShare
from gschedd.core.board import build_snapshot
from gschedd.core.features import model_mask
from gschedd.core.inputs import AccountInput, HoldInput, NodeInput, Policy, QueueInput
from gschedd.core.kernels.arrays import FOREVER, MUST, Grid
from gschedd.core.kernels.freed import (
    ACCOUNT_GROUPS,
    ACCOUNT_MINE,
    ACCOUNT_PARENT,
    ASK_CLOSE,
    ASK_NOW,
    BEST_DOMAIN,
    BEST_LEVEL,
    BEST_LOST,
    BEST_RANK,
    BEST_UNITS,
    BEST_VICTIMS,
    GROUP_GUARANTEE,
    GROUP_ROWS,
    GROUP_USED,
    PART_HELD,
    PART_NODE,
    UNIT_ACCOUNT,
    UNIT_BEST,
    UNIT_END,
    UNIT_FIRST,
    UNIT_HEAD,
    UNIT_LEAST,
    UNIT_LOST,
    UNIT_RANK,
    UNIT_USES,
    UNIT_WAY,
    WAY_NONE,
    WAY_RECLAIM,
)
from gschedd.core.kernels.rights import mark_branch_nb, rights_nb
from gschedd.core.kernels.sets import NO_RANK
from gschedd.core.kernels.victims import find_victims_nb, look_nb
from gschedd.core.snapshot import Snapshot
from gschedd.core.victim_arrays import make_accounts, make_search, runs_of
from gschedd.core.victims_twin import Account, Found, RunOf, Unit, VictimSearch
from gschedd.core.workspace import make_workspace
from tests.builders.cluster import NOW, inventory, request

MODELS = ("NVIDIA H100", "NVIDIA A100")
TREE = (
    AccountInput("lab", guarantee=(("h100", 8000),)),
    AccountInput("lab-a", "lab", (("h100", 4000), ("a100", 2000))),
    AccountInput("lab-b", "lab"),
    AccountInput("firm", guarantee=(("h100", 4000),)),
)


class Case(Struct, frozen=True):
    """One blocked job among runs."""

    nodes: tuple[NodeInput, ...]
    holds: tuple[HoldInput, ...]
    job: QueueInput
    level: int
    accounts: tuple[AccountInput, ...] = ()
    min_run_s: int = 0
    max_preemptions: int = 0


def case_at_random(random: Random, most_nodes: int = 6, most_runs: int = 9, accounts: bool = True) -> Case:
    """Nodes of 4 GPUs, most of them in use; gangs, elastic runs, ranks, checkpoints and accounts."""
    size = random.randint(1, most_nodes)
    leaves = random.randint(1, 3)
    nodes = tuple(
        NodeInput(
            NodeName(f"n{i}"),
            inventory(gpus=4, cores=8, memory_mib=4000, model=MODELS[random.random() < 0.2]),
            ("main",),
            (),
            (f"leaf{i % leaves}", f"pod{i % leaves // 2}"),
        )
        for i in range(size)
    )
    free = {node.name: 0b1111 for node in nodes}
    holds = []
    for i in range(random.randint(1, most_runs)):
        names = random.sample([node.name for node in nodes], random.choice([1, 1, 1, 2, 3, size]) if size > 2 else 1)
        hold = _hold(random, i, names, free, accounts)
        if hold is not None:
            holds.append(hold)
    random.shuffle(holds)
    wanted = request(random.randint(1, size), random.randint(1, 4), random.randint(1, 3), memory=100)
    if random.random() < 0.1:
        wanted = request(1, 2, on=[nodes[0].name])
    job = QueueInput(JobId(1), wanted, rank=random.randint(0, 2), account=random.choice(["lab-a", "lab-b", "firm", ""]))
    return Case(
        nodes,
        tuple(holds),
        job,
        random.choice([0, 2, 2, 2]),
        TREE if accounts else (),
        random.choice([0, 0, 100]),
        random.choice([0, 0, 2]),
    )


def _hold(
    random: Random, number: int, names: list[NodeName], free: dict[NodeName, int], accounts: bool
) -> HoldInput | None:
    shares = []
    for name in names:
        mask = free[name] & random.choice([0b1111, 0b0011, 0b1100, 0b1010, 0b1001])
        if mask:
            free[name] &= ~mask
            shares.append(NodeShare(name, 1, 100, mask))
    if not shares:
        return None
    started = NOW - 1000 * random.choice([50, 500, 5000, 5000 + random.randrange(100)])
    return HoldInput(
        RunKey(JobId(100 + random.randrange(3) * 10 + number), RunNo(1 + random.randrange(2))),
        tuple(shares),
        None,
        random.choice(["", "lab-a", "lab-b", "firm"]) if accounts else "",
        random.choice([0, 0, 1, 2]),
        random.random() < 0.8,
        random.random() < 0.5,
        Instant(started) if random.random() < 0.9 else None,
        Instant(started + 20_000) if random.random() < 0.3 else None,
        random.randrange(4),
        random.choice([0, 0, 0, 1, 2]),
    )


class Hunt:
    """A case as arrays, searched by the kernels; and what the plain twin needs to do the same."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.snapshot: Snapshot = build_snapshot(case.nodes, case.holds, [case.job])
        work = self.work = make_workspace(self.snapshot, Policy(), NOW)
        self.accounts = make_accounts(case.accounts)
        by_name = {node.name: node for node in case.nodes}
        self.inventories = [by_name[name].inventory for name in self.snapshot.names]
        groups: Grid = np.array(
            [[model_mask(group, found) for found in self.inventories] for group in self.accounts.groups], dtype=np.int64
        ).reshape(len(self.accounts.groups), len(self.inventories))
        runs = runs_of(self.snapshot.holds, self.snapshot.account_names, self.accounts, NOW)
        self.search = make_search(
            runs, self.snapshot.runs, work.held, work.ahead, self.accounts, groups, work.tree, NOW
        )
        wants = case.job.request.nodes_min * case.job.request.need.gpus * 1000
        self.needs: Grid = np.array(
            [[wants * bool(mask.any()) for mask in groups], [all(m for m in mask) for mask in groups]], dtype=np.int64
        ).reshape(2, len(groups))
        account = self.accounts.number.get(case.job.account, -1)
        within = mark_branch_nb(self.search.accounts, account, self.needs)
        limits = NOW, case.min_run_s * 1000, case.max_preemptions
        rights_nb(self.search.units, self.search.accounts, case.job.rank, within, *limits)

    def kernel(self) -> Found | None:
        """The kernel's answer; it leaves everything as it was."""
        s, work = self.search, self.work
        held, accounts = s.held.copy(), s.accounts.copy()
        s.ask[ASK_NOW], s.ask[ASK_CLOSE] = NOW, FOREVER
        look_nb(s, work.nodes, work.tree, work.classes, 0, self.case.level)
        found = find_victims_nb(s)
        assert (held == s.held).all()
        assert (accounts == s.accounts).all()
        if not found:
            return None
        gone = frozenset(np.flatnonzero(s.units[UNIT_BEST]).tolist())
        order = (BEST_RANK, BEST_LOST, BEST_VICTIMS, BEST_UNITS, BEST_LEVEL, BEST_DOMAIN)
        return Found(*(int(s.ask[i]) for i in order), gone)

    def twin(self) -> VictimSearch:
        """The same case for the plain twin."""
        classes = self.snapshot.classes
        row = classes.eligible[classes.row[0]]
        units = self.search.units
        return VictimSearch(
            units=[self._unit(u) for u in range(units.shape[1]) if units[UNIT_WAY, u] != WAY_NONE],
            runs={
                int(u): RunOf(*(int(units[row, u]) for row in (UNIT_RANK, UNIT_ACCOUNT, UNIT_LEAST)))
                for u in set(units[UNIT_HEAD].tolist())
            },
            accounts=[self._account(a) for a in range(self.search.accounts.shape[1])],
            levels=self._levels(),
            open=frozenset(np.flatnonzero(row).tolist()),
            required=frozenset(np.flatnonzero(row & MUST).tolist()),
            least=int(classes.least[0]),
            fits=self._fits,
            ignores_level=int(classes.least[0]) == 1 or int(classes.gpus[0]) == 0,
            no_rank=NO_RANK,
        )

    def _levels(self) -> list[list[range]]:
        tree = self.snapshot.tree
        return [
            [range(tree.first[level, d], tree.first[level, d + 1]) for d in range(tree.domains[level])]
            for level in range(tree.domains.size)
        ]

    def _unit(self, u: int) -> Unit:
        units, parts = self.search.units, self.search.parts
        nodes = parts[PART_NODE, units[UNIT_FIRST, u] : units[UNIT_END, u]]
        return Unit(
            u,
            int(units[UNIT_HEAD, u]),
            frozenset(nodes.tolist()),
            int(units[UNIT_LOST, u]),
            bool(units[UNIT_WAY, u] == WAY_RECLAIM),
            tuple(units[UNIT_USES:, u].tolist()),
        )

    def _account(self, a: int) -> Account:
        column = self.search.accounts[:, a].tolist()
        groups = [column[i : i + GROUP_ROWS] for i in range(ACCOUNT_GROUPS, len(column), GROUP_ROWS)]
        return Account(
            column[ACCOUNT_PARENT],
            bool(column[ACCOUNT_MINE]),
            tuple(group[GROUP_GUARANTEE] for group in groups),
            tuple(group[GROUP_USED] for group in groups),
        )

    def _fits(self, n: int, gone: frozenset[int]) -> bool:
        """From the values: what the node has, less what stays there."""
        name, found, need = self.snapshot.names[n], self.inventories[n], self.case.job.request.need
        parts = {
            int(self.search.parts[PART_HELD, p])
            for u in gone
            for p in range(self.search.units[UNIT_FIRST, u], self.search.units[UNIT_END, u])
        }
        cores, memory, gpus = found.cpus, found.memory_mib, (1 << len(found.gpus)) - 1
        rows = (share for hold in self.case.holds for share in hold.shares)
        for row, share in enumerate(rows):
            if share.node == name and row not in parts:
                cores, memory, gpus = cores - share.cpus, memory - share.mem_mib, gpus & ~share.gpus
        memory_need = need.mem_mib or found.memory_mib * need.gpus // len(found.gpus)
        return cores >= need.cpus and memory >= memory_need and gpus.bit_count() >= need.gpus
