"""The plain twins of the kernels: they say what, the kernels say how fast. Tests hold the two together.

Names follow the kernels' with the suffix `_py`. `plan_py` is the twin of the whole pass; a surprising plan is
settled by running it. Nothing here is meant to be quick.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from gsched.values.ids import Instant
from gschedd.core.booking import inside_reservations
from gschedd.core.inputs import Plan, Policy
from gschedd.core.kernels.arrays import (
    CLASS_LEAST,
    CLASS_LEVEL,
    CLASS_MOST,
    CLASS_SEGMENT,
    CLASS_SWITCHES,
    CLASS_SWITCHES_WAIT,
    FOREVER,
    OUT_ROWS,
    OUT_START,
    SHARE_ROWS,
    SOMEDAY,
    VERDICT_IMPOSSIBLE,
    VERDICT_NOT_AVAILABLE,
    VERDICT_PRIORITY,
    VERDICT_RESERVATION,
    VERDICT_RESOURCES,
    VERDICT_STARTED,
)
from gschedd.core.kernels.events import OPEN_CLAIM
from gschedd.core.order import ordered
from gschedd.core.place_twin import Bounds
from gschedd.core.plan import as_plan
from gschedd.core.promises import moved_later
from gschedd.core.snapshot import Snapshot
from gschedd.core.time_twin import Decision, TimeTwin


def plan_py(snapshot: Snapshot, policy: Policy, now: Instant) -> Plan:
    """Twin of `plan`."""
    return PassTwin(inside_reservations(ordered(snapshot, policy, now)), policy, now).plan()


class PassTwin(TimeTwin):
    """One pass over lists."""

    def plan(self) -> Plan:
        queue = self.s.queue
        failed: dict[tuple[int, Bounds], tuple[int, int, int]] = {}  # class, bounds: limit, verdict, nodes found
        decisions: list[Decision] = []
        left = self.policy.planned_starts
        for j in range(queue.job.size):
            c, limit = int(queue.cls[j]), int(queue.limit[j])
            alike = c, self.bounds_py(j, c)
            opens, last = self.opening_py(j, limit)
            claimed = bool(self.opening.shape[1] and self.opening[OPEN_CLAIM, j])
            shut = opens > self.now or last < self.now
            decision = Decision(VERDICT_RESERVATION if shut else self.outlook_py(c))
            if decision.verdict == VERDICT_STARTED:
                if alike in failed and limit >= failed[alike][0] and not claimed:
                    decision = Decision(*failed[alike][1:])
                else:
                    decision = self.try_start_py(j, c, limit)
                    if not decision.shares:
                        failed[alike] = limit, decision.verdict, decision.found
            decisions.append(decision)
            if decision.shares or decision.verdict == VERDICT_IMPOSSIBLE:
                continue
            if self.policy.strict_order:
                return self.as_plan_py(decisions, len(decisions) - 1)
            if left and decision.verdict != VERDICT_NOT_AVAILABLE and opens <= last:
                left -= 1
                decisions[-1] = self.plan_ahead_py(j, c, limit, self.bounds_py(j, c), decision)
        return self.as_plan_py(decisions, -1)

    def as_plan_py(self, decisions: Sequence[Decision], blocked_from: int) -> Plan:
        """The decisions in the columns in which the kernels leave theirs."""
        out = np.zeros((OUT_ROWS, self.s.queue.job.size), dtype=np.int64)
        out[OUT_START] = -1
        shares: list[tuple[int, int, int, int]] = []
        for j, decision in enumerate(decisions):
            mine = [*decision.shares, *((n, 0, 0, 0) for n in decision.planned_nodes)]
            out[:, j] = (decision.verdict, decision.found, len(mine), len(shares), decision.planned, decision.taken)
            shares += mine
        columns = np.array(shares, dtype=np.int64).reshape(len(shares), SHARE_ROWS).T
        walked = as_plan(self.s, self.columns, out, columns, blocked_from, Instant(self.now))
        return replace(walked, moved=moved_later(self.s, walked, Instant(self.now)))

    def outlook_py(self, c: int) -> int:
        nodes, columns = self.s.nodes, self.columns
        forever = columns[CLASS_SWITCHES_WAIT, c] >= SOMEDAY
        bounds = Bounds(int(columns[CLASS_LEVEL, c]), int(columns[CLASS_SWITCHES, c]) if forever else 0)
        least = int(columns[CLASS_LEAST, c])
        idle = [(int(nodes.gpus[n]), int(nodes.cores[n]), int(nodes.memory[n])) for n in range(self.size)]
        ever = [n for n in range(self.size) if self.eligible(c, n) and self.member_fits_py(c, n, idle[n])]
        whole = [(room[0] & int(nodes.healthy[n]), *room[1:]) for n, room in enumerate(idle)]
        up = [n for n in ever if self.takes_new(c, n) and self.member_fits_py(c, n, whole[n])]
        if self.takes_py(c, up, bounds) >= least:
            return VERDICT_STARTED
        return VERDICT_NOT_AVAILABLE if self.takes_py(c, ever, bounds) >= least else VERDICT_IMPOSSIBLE

    def bounds_py(self, j: int, c: int) -> Bounds:
        waited = self.now - int(self.s.factors.eligible[self.s.queue.row[j]])
        binds = waited < self.columns[CLASS_SWITCHES_WAIT, c]
        return Bounds(int(self.columns[CLASS_LEVEL, c]), int(self.columns[CLASS_SWITCHES, c]) if binds else 0)

    def try_start_py(self, j: int, c: int, limit: int) -> Decision:
        now, bounds = self.now, self.bounds_py(j, c)
        least, most = int(self.columns[CLASS_LEAST, c]), int(self.columns[CLASS_MOST, c])
        found = self.scan_py(c, j, now, FOREVER) if most > least else {}
        count = min(self.takes_py(c, found, bounds), most)
        if count < least:
            found, count = self.scan_py(c, j, now, self.end_py(now, limit)), least
        if self.takes_py(c, found, bounds) < least:
            free = self.unplanned_py(c)
            held_back = self.takes_py(c, free, bounds) >= least
            verdict = VERDICT_PRIORITY if held_back else VERDICT_RESOURCES
            if held_back and self.booked:
                beside = self.scan_py(c, -1, now, self.end_py(now, limit))
                verdict = verdict if self.takes_py(c, beside, bounds) >= least else VERDICT_RESERVATION
            return Decision(verdict, len(free))
        segment = max(int(self.columns[CLASS_SEGMENT, c]), 1)
        count = max(count - count % segment, least)
        chosen = [self.best_one_py(c, found)] if most == 1 else self.place_py(c, count, found, bounds)
        shares = self.shares_py(c, chosen, found)
        for n, gpus, memory, _ in shares:
            end = SOMEDAY if limit >= SOMEDAY else now + limit
            self.held[n].append((now, end, (gpus, int(self.s.classes.cores[c]), memory)))
        return Decision(VERDICT_STARTED, 0, shares, taken=c)
