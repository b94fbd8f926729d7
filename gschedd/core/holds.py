"""Live runs and what they hold of each node, kept up to date run by run."""

from __future__ import annotations

from typing import Final

import numpy as np

from gsched.values.ids import RunKey
from gsched.values.run import NodeShare
from gschedd.core.columns import Numbers, Slots
from gschedd.core.inputs import HoldInput
from gschedd.core.kernels.arrays import SOMEDAY, HoldArrays, RunArrays
from gschedd.core.node_columns import NodeColumns

_ACCOUNT: Final = HoldArrays._fields.index("account")


class Holds:
    """One row a run, and one row a run and node. Nodes that are not known keep their rows: they may become known."""

    def __init__(self, nodes: NodeColumns, accounts: Numbers[str]) -> None:
        self._nodes = nodes
        self._accounts = accounts
        self._runs = Slots(len(HoldArrays._fields))
        self._shares = Slots(len(RunArrays._fields))
        self._at: dict[RunKey, tuple[int, list[int]]] = {}  # its row among the runs, its rows among the shares

    def put(self, hold: HoldInput) -> None:
        """Enter a run, or say what it holds now."""
        self.drop(hold.key)
        (run,) = self._runs.add([self._columns(hold)])
        end = SOMEDAY if hold.expected_end is None else hold.expected_end
        slot = self._nodes.slot
        rows = self._shares.add([(slot(share.node), end, *_taken(share, run)) for share in hold.shares])
        self._at[hold.key] = run, rows

    def drop(self, key: RunKey) -> None:
        """What it held is free."""
        if key not in self._at:
            return
        run, rows = self._at.pop(key)
        self._accounts.give_back(int(self._runs.grid[_ACCOUNT, run]))
        self._runs.drop([run])
        self._shares.drop(rows)

    def runs(self) -> HoldArrays:
        """Views."""
        return HoldArrays(*self._runs.grid)

    def shares(self) -> RunArrays:
        """Those on known nodes, the node given as its index. Copies; the nodes' columns are right."""
        grid = self._shares.grid
        rows = np.flatnonzero(grid[0] >= 0)
        place = self._nodes.place[grid[0, rows]]
        if place.size and place.min() < 0:
            rows, place = rows[place >= 0], place[place >= 0]
        return RunArrays(place, *grid[1:, rows])

    def _columns(self, hold: HoldInput) -> tuple[int, ...]:
        """In the order of HoldArrays."""
        return (
            hold.key.job,
            hold.key.run,
            hold.rank,
            self._accounts.take(hold.account),
            hold.preemptable,
            hold.in_guarantee,
            -1 if hold.started is None else hold.started,
            -1 if hold.checkpoint is None else hold.checkpoint,
            hold.preempted,
            hold.elastic_least,
            -1 if hold.predicted_end is None else hold.predicted_end,
        )


def _taken(share: NodeShare, run: int) -> tuple[int, ...]:
    """From the third on in the order of RunArrays."""
    return share.cpus, share.mem_mib, share.gpus, run, share.gpu_milli, share.gpu_mem_mib, share.slices
