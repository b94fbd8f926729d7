"""The plain twins of the kernels: they say what, the kernels say how fast. Tests hold the two together.

Names follow the kernels' with the suffix `_py`. `plan_py` is the twin of the whole pass; a surprising plan is
settled by running it. Nothing here is meant to be quick.
"""

from __future__ import annotations

from collections.abc import Sequence

from gsched.values.ids import Instant
from gschedd.core.inputs import Plan, Policy
from gschedd.core.kernels.arrays import (
    FOREVER,
    MUST,
    SOMEDAY,
    VERDICT_IMPOSSIBLE,
    VERDICT_NOT_AVAILABLE,
    VERDICT_PRIORITY,
    VERDICT_RESOURCES,
    VERDICT_STARTED,
)
from gschedd.core.links_twin import best_class_py, subset_py
from gschedd.core.order import ordered
from gschedd.core.plan import Decision, as_plan
from gschedd.core.room_twin import Room, RoomTwin
from gschedd.core.snapshot import Snapshot


def plan_py(snapshot: Snapshot, policy: Policy, now: Instant) -> Plan:
    """Twin of `plan`."""
    return PassTwin(ordered(snapshot, policy, now), policy, now).plan()


class PassTwin(RoomTwin):
    """One pass over lists."""

    def scan_py(self, c: int, start: int, end: int) -> dict[int, Room]:
        """Room on each node that holds a member through the window; the mask holds usable GPUs only."""
        found = {}
        for n in range(self.size):
            room = self.clear_py(c, -1, n, start, end)
            if self.takes_new(c, n) and self.member_fits_py(c, n, room):
                usable = int(self.s.classes.usable[self.s.classes.gpu_row[c], n]) if self.s.classes.gpus[c] else -1
                found[n] = (room[0] & usable, room[1], room[2])
        return found

    # Which nodes.

    def place_py(self, c: int, count: int, found: dict[int, Room], late: Sequence[int] = ()) -> list[int]:
        must = [n for n in found if self.eligible(c, n) & MUST]
        if count == 1 or not self.s.classes.gpus[c] or late:
            return self.take_py(c, count, list(found), found, late)
        for level in range(self.s.tree.domains.size):
            domains = self.split_py(level, list(found))
            fitting = [d for d in domains if len(d) >= count and set(must) <= set(d)]
            if fitting:
                return self.fill_py(c, level, min(fitting, key=len), count, found)
        raise AssertionError("the last level holds every node")

    def split_py(self, level: int, among: Sequence[int]) -> list[list[int]]:
        """The nodes by their domain at a level, in topology order."""
        domains: dict[int, list[int]] = {}
        for n in sorted(among):
            domains.setdefault(int(self.s.tree.domain[level, n]), []).append(n)
        return list(domains.values())

    def fill_py(self, c: int, level: int, within: list[int], count: int, found: dict[int, Room]) -> list[int]:
        """Take `count` of the nodes of one domain: fewest children, then the same inside each child."""
        if level == 0:
            return self.take_py(c, count, within, found)
        children = self.split_py(level - 1, within)
        quotas = [sum(self.eligible(c, n) & MUST > 0 for n in child) for child in children]
        left = count - sum(quotas)
        while left:
            spare = [len(child) - quota for child, quota in zip(children, quotas, strict=True)]
            used = [i for i, quota in enumerate(quotas) if quota and spare[i]]
            among = used or [i for i, free in enumerate(spare) if free]
            whole = [i for i in among if spare[i] >= left]
            pick = min(whole, key=lambda i: (spare[i], i)) if whole else min(among, key=lambda i: (-spare[i], i))
            taken = min(spare[pick], left)
            quotas[pick] += taken
            left -= taken
        parts = [self.fill_py(c, level - 1, child, quota, found) for child, quota in zip(children, quotas, strict=True)]
        return sorted(n for part in parts for n in part)

    def take_py(
        self, c: int, count: int, within: Sequence[int], found: dict[int, Room], late: Sequence[int] = ()
    ) -> list[int]:
        """The best `count` nodes by the order of candidates."""
        need, cores = int(self.s.classes.gpus[c]), int(self.s.classes.cores[c])

        def key(n: int) -> tuple[int, ...]:
            leaf = self.s.tree.domain[0]
            return (
                0 if self.eligible(c, n) & MUST else 1,
                n in late,
                best_class_py(self.s.links, int(self.s.nodes.links[n]), found[n][0], need),
                found[n][0].bit_count() - need,
                min(found[n][1] - cores, 32767),
                min(sum(leaf[other] == leaf[n] for other in found), 4095),
                n,
            )

        return sorted(sorted(within, key=key)[:count])

    # The walk.

    def plan(self) -> Plan:
        queue = self.s.queue
        failed: dict[int, tuple[int, int, int]] = {}  # class: limit, verdict, nodes found
        decisions: list[Decision] = []
        left = self.policy.planned_starts
        for j in range(queue.job.size):
            c, limit = int(queue.cls[j]), int(queue.limit[j])
            decision = Decision(self.outlook_py(c))
            if decision.verdict == VERDICT_STARTED:
                if c in failed and limit >= failed[c][0]:
                    decision = Decision(*failed[c][1:])
                else:
                    decision = self.try_start_py(c, limit)
                    if not decision.shares:
                        failed[c] = limit, decision.verdict, decision.found
            decisions.append(decision)
            if decision.shares or decision.verdict == VERDICT_IMPOSSIBLE:
                continue
            if self.policy.strict_order:
                return as_plan(self.s, decisions, len(decisions) - 1)
            if left and decision.verdict != VERDICT_NOT_AVAILABLE:
                left -= 1
                decisions[-1] = self.plan_ahead_py(j, c, limit, decision)
        return as_plan(self.s, decisions, -1)

    def outlook_py(self, c: int) -> int:
        nodes = self.s.nodes
        idle = [(int(nodes.gpus[n]), int(nodes.cores[n]), int(nodes.memory[n])) for n in range(self.size)]
        ever = [n for n in range(self.size) if self.eligible(c, n) and self.member_fits_py(c, n, idle[n])]
        if not self.enough(c, ever):
            return VERDICT_IMPOSSIBLE
        whole = [(room[0] & int(nodes.healthy[n]), *room[1:]) for n, room in enumerate(idle)]
        up = [n for n in ever if self.takes_new(c, n) and self.member_fits_py(c, n, whole[n])]
        return VERDICT_STARTED if self.enough(c, up) else VERDICT_NOT_AVAILABLE

    def try_start_py(self, c: int, limit: int) -> Decision:
        classes, now = self.s.classes, self.now
        least, most = int(classes.least[c]), int(classes.most[c])
        found = self.scan_py(c, now, FOREVER)
        count = min(len(found), most)
        if most == least or not self.enough(c, list(found)):
            found, count = self.scan_py(c, now, self.end_py(now, limit)), least
        if not self.enough(c, list(found)):
            free = [
                n
                for n in range(self.size)
                if self.takes_new(c, n) and self.member_fits_py(c, n, self.running_room_py(n, now))
            ]
            return Decision(VERDICT_PRIORITY if self.enough(c, free) else VERDICT_RESOURCES, len(free))
        shares = self.shares_py(c, self.place_py(c, count, found), found)
        for n, gpus, memory in shares:
            end = SOMEDAY if limit >= SOMEDAY else now + limit
            self.held[n].append((now, end, (gpus, int(classes.cores[c]), memory)))
        return Decision(VERDICT_STARTED, 0, shares)

    def shares_py(self, c: int, chosen: Sequence[int], found: dict[int, Room]) -> list[tuple[int, int, int]]:
        """(node, GPU mask, memory) of each member."""
        count = int(self.s.classes.gpus[c])
        kinds = self.s.nodes.links
        return [
            (n, subset_py(self.s.links, int(kinds[n]), found[n][0], count), self.memory_need_py(c, n)) for n in chosen
        ]

    def plan_ahead_py(self, j: int, c: int, limit: int, waits: Decision) -> Decision:
        for start in self.instants_py():
            end = self.end_py(start, limit)
            found = self.scan_py(c, start, end)
            if self.enough(c, list(found)):
                break
        else:
            return waits
        late = [n for n in found if start >= SOMEDAY and self.node_when_py(c, n) >= SOMEDAY]
        shares = self.shares_py(c, self.place_py(c, int(self.s.classes.least[c]), found, late), found)
        guard = self.now if start - self.now <= self.policy.kill_time_s * 1000 else start
        for n, gpus, memory in shares:
            self.ahead[n].append((guard, (start, end, (gpus, int(self.s.classes.cores[c]), memory)), j))
        return Decision(waits.verdict, waits.found, (), start, [n for n, _, _ in shares])

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
