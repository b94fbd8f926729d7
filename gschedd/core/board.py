"""The scheduler's copy of the cluster and its queue, as arrays that each change writes a few cells of.

Whoever plans has one of its own, replays the changes into it, and asks it for a snapshot. Two boards that were told the
same in the end give the same plan, whatever they were told before.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gsched.values.ids import Instant, JobId, NodeName, RunKey
from gschedd.core.classes import ClassTable
from gschedd.core.columns import Numbers
from gschedd.core.holds import Holds
from gschedd.core.inputs import (
    AccountInput,
    ClaimInput,
    CounterInput,
    HoldGone,
    HoldInput,
    JobGone,
    NodeGone,
    NodeInput,
    PassInput,
    PassLog,
    PlannedStart,
    Policy,
    QueueInput,
    ReservationInput,
)
from gschedd.core.jobs import Jobs
from gschedd.core.kernels.arrays import Int64s, NodeArrays, RunArrays
from gschedd.core.node_columns import NodeColumns
from gschedd.core.snapshot import Snapshot


class Board:
    """Everything one pass reads. To put something again replaces it; to drop what is not there changes nothing.

    A claim, a planned start or an account may name what the board does not know.
    """

    def __init__(self) -> None:
        self._account_names: Numbers[str] = Numbers()
        self._nodes = NodeColumns()
        self._classes = ClassTable(self._nodes)
        self._holds = Holds(self._nodes, self._account_names)
        self._jobs = Jobs(self._classes, self._account_names)
        self._levels: tuple[str, ...] = ()
        self._reservations: tuple[ReservationInput, ...] = ()
        self._claims: tuple[ClaimInput, ...] = ()
        self._accounts: tuple[AccountInput, ...] = ()
        self._counters: tuple[CounterInput, ...] = ()
        self._planned: tuple[PlannedStart, ...] = ()

    def put_node(self, node: NodeInput) -> None:
        self._nodes.put(node)

    def drop_node(self, name: NodeName) -> None:
        self._nodes.drop(name)

    def put_hold(self, hold: HoldInput) -> None:
        self._holds.put(hold)

    def drop_hold(self, key: RunKey) -> None:
        self._holds.drop(key)

    def put_job(self, job: QueueInput) -> None:
        self._jobs.put(job)

    def drop_job(self, job: JobId) -> None:
        self._jobs.drop(job)

    # What there is little of is kept as it was given.

    def set_levels(self, levels: tuple[str, ...]) -> None:
        self._levels = levels

    def set_reservations(self, reservations: tuple[ReservationInput, ...]) -> None:
        self._reservations = reservations

    def set_claims(self, claims: tuple[ClaimInput, ...]) -> None:
        self._claims = claims

    def set_accounts(self, accounts: tuple[AccountInput, ...]) -> None:
        self._accounts = accounts

    def set_counters(self, counters: tuple[CounterInput, ...]) -> None:
        self._counters = counters

    def set_planned(self, planned: tuple[PlannedStart, ...]) -> None:
        """The planned starts of the last pass."""
        self._planned = planned

    def set_standing(self, given: PassInput | PassLog) -> None:
        """All of the above, as they stand."""
        self._levels, self._planned = given.levels, given.planned
        self._reservations, self._claims = given.reservations, given.claims
        self._accounts, self._counters = given.accounts, given.counters

    def replay(self, log: PassLog) -> None:
        """Take over all that has changed since the last log."""
        for change in log.changes:
            match change:
                case NodeInput():
                    self.put_node(change)
                case HoldInput():
                    self.put_hold(change)
                case QueueInput():
                    self.put_job(change)
                case NodeGone(name):
                    self.drop_node(name)
                case HoldGone(key):
                    self.drop_hold(key)
                case JobGone(job):
                    self.drop_job(job)
        self.set_standing(log)

    def snapshot(self) -> Snapshot:
        """What a pass reads: views, right until the next change."""
        self._nodes.refresh()
        shares = self._holds.shares()
        return Snapshot(
            names=self._nodes.names,
            nodes=self._node_arrays(shares),
            tree=self._nodes.tree,
            links=self._nodes.links,
            classes=self._classes.arrays(),
            queue=self._jobs.queue(),
            runs=shares,
            requests=self._classes.requests(),
            shapes=self._classes.shapes(),
            shape_names=self._classes.shape_names(),
            factors=self._jobs.factors(),
            holds=self._holds.runs(),
            gpu_sets=tuple(self._nodes.gpu_sets),
            gpu_set=self._nodes.gpu_set,
            account_names=tuple(self._account_names.keys),
            levels=self._levels,
            reservations=self._reservations,
            claims=self._claims,
            accounts=self._accounts,
            counters=self._counters,
            planned=self._planned,
            groups=self._groups(),
        )

    def _groups(self) -> tuple[tuple[str, Int64s], ...]:
        names = sorted({group for account in self._accounts for group, _ in account.guarantee})
        return tuple((name, self._nodes.usable_row((name, 0, ""))) for name in names)

    def _node_arrays(self, shares: RunArrays) -> NodeArrays:
        """What is free is what the runs leave: nothing that could drift is kept."""
        nodes = self._nodes
        free_cores, free_memory, free_gpus = nodes.cores.copy(), nodes.memory.copy(), nodes.healthy.copy()
        np.subtract.at(free_cores, shares.node, shares.cores)
        np.subtract.at(free_memory, shares.node, shares.memory)
        np.bitwise_and.at(free_gpus, shares.node, ~shares.gpus)
        return NodeArrays(
            up=nodes.up,
            cores=nodes.cores,
            memory=nodes.memory,
            gpus=nodes.gpus,
            healthy=nodes.healthy,
            free_cores=free_cores,
            free_memory=free_memory,
            free_gpus=free_gpus,
            links=nodes.links_kind,
        )


def build_snapshot(
    nodes: Sequence[NodeInput],
    holds: Sequence[HoldInput] = (),
    queue: Sequence[QueueInput] = (),
    levels: tuple[str, ...] = (),
) -> Snapshot:
    """What a fresh board says once it was told all that."""
    return board_of(PassInput(tuple(nodes), tuple(holds), tuple(queue), Policy(), Instant(0), levels)).snapshot()


def snapshot_of(given: PassInput) -> Snapshot:
    """What a fresh board says once it was told a pass's whole input."""
    return board_of(given).snapshot()


def board_of(given: PassInput) -> Board:
    """A fresh board that was told a pass's whole input."""
    board = Board()
    for node in given.nodes:
        board.put_node(node)
    for hold in given.holds:
        board.put_hold(hold)
    for job in given.queue:
        board.put_job(job)
    board.set_standing(given)
    return board
