"""Twin of earliest.py and ahead.py: when a job can start, and what is kept free for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gschedd.core.booking import Booked, booked_rows, openings
from gschedd.core.inputs import Policy
from gschedd.core.kernels.arrays import CLASS_LEAST, FOREVER, SOMEDAY
from gschedd.core.kernels.events import OPEN_FROM, OPEN_UNTIL
from gschedd.core.links_twin import subset_py
from gschedd.core.place_twin import Bounds, PlaceTwin, Spot
from gschedd.core.snapshot import Snapshot


class Decision(NamedTuple):
    """What was decided for one job."""

    verdict: int
    found: int = 0  # nodes that hold a member now
    shares: Sequence[tuple[int, int, int, int]] = ()  # started: node, GPU mask, memory, class of each member
    planned: int = -1  # planned start; -1 = none
    planned_nodes: Sequence[int] = ()
    taken: int = 0  # started: the class of the alternative that it was


class TimeTwin(PlaceTwin):
    """The instants at which anything changes, tried one by one."""

    def __init__(self, snapshot: Snapshot, policy: Policy, now: int) -> None:
        super().__init__(snapshot, policy, now)
        self.booked = booked_rows(snapshot, now)
        self.opening = openings(snapshot)
        for row in self.booked:
            guard, start = row.start, row.start
            if row.start < 0:
                guard, start = now, min(self.first_room_py(row), row.end - 1)
            self.ahead[row.node].append((guard, (start, row.end, (row.gpus, row.cores, row.memory)), row.owner))

    def first_room_py(self, row: Booked) -> int:
        """When runs first leave what a claim keeps; now if they never do."""
        for t in sorted({self.now, *(end for _, end, _ in self.held[row.node])}):
            gpus, cores, memory = self.running_room_py(row.node, t)
            if gpus & row.gpus == row.gpus and cores >= row.cores and memory >= row.memory:
                return t
        return self.now

    def opening_py(self, j: int, limit: int) -> tuple[int, int]:
        """(first, last) instant at which job j may start, by its reservation."""
        if not self.opening.shape[1]:
            return self.now, SOMEDAY
        first, until = int(self.opening[OPEN_FROM, j]), int(self.opening[OPEN_UNTIL, j])
        return max(self.now, first), SOMEDAY if until == FOREVER else until - limit

    def plan_ahead_py(self, j: int, c: int, limit: int, bounds: Bounds, waits: Decision) -> Decision:
        """Keep the room of job j's earliest start free; where it was promised that instant, on the promised nodes."""
        least = int(self.columns[CLASS_LEAST, c])
        opens, last = self.opening_py(j, limit)
        for start in sorted({opens, *self.instants_py()}):
            if not opens <= start <= last:
                continue
            end = self.end_py(start, limit)
            found = self.scan_py(c, j, start, end)
            if self.takes_py(c, found, bounds) >= least:
                break
        else:
            return waits
        late = [n for n in found if start >= SOMEDAY and self.node_when_py(c, n) >= SOMEDAY]
        nodes = self.promised_py(j, start, found)
        if len(nodes) != least or self.takes_py(c, nodes, bounds) < least:
            nodes = self.place_py(c, least, found, bounds, late)
        shares = self.shares_py(c, nodes, found)
        guard = self.now if start - self.now <= self.policy.kill_time_s * 1000 else start
        for n, gpus, memory, _ in shares:
            self.ahead[n].append((guard, (start, end, (gpus, int(self.s.classes.cores[c]), memory)), j))
        return Decision(waits.verdict, waits.found, (), start, [n for n, *_ in shares])

    def promised_py(self, j: int, start: int, found: dict[int, Spot]) -> list[int]:
        """The nodes that job j was promised for that start; none if one of them is not among those found."""
        for promise in self.s.planned:
            if promise.job == self.s.queue.job[j] and promise.at == start:
                nodes = [n for n, name in enumerate(self.s.names) if name in promise.nodes]
                return nodes if len(nodes) == len(promise.nodes) and set(nodes) <= set(found) else []
        return []

    def shares_py(self, c: int, chosen: Sequence[int], found: dict[int, Spot]) -> list[tuple[int, int, int, int]]:
        """(node, GPU mask, memory, class) of each member."""
        count = int(self.s.classes.gpus[c])
        kinds = self.s.nodes.links
        masks = {n: subset_py(self.s.links, int(kinds[n]), found[n].gpus, count) for n in chosen}
        return [(n, masks[n], self.memory_need_py(c, n), c) for n in chosen]

    def instants_py(self) -> list[int]:
        """Every instant at which anything ends, and now."""
        ends = {end for spans in self.held for _, end, _ in spans}
        ends |= {span[1] for spans in self.ahead for _, span, _ in spans}
        return sorted({self.now, *(min(end, SOMEDAY) for end in ends if end > self.now)})

    def node_when_py(self, c: int, n: int) -> int:
        times = [t for t in self.instants_py() if self.member_fits_py(c, n, self.running_room_py(n, t))]
        return times[0] if times else -1

    def end_py(self, start: int, limit: int) -> int:
        return FOREVER if limit >= SOMEDAY or start >= SOMEDAY else start + limit
