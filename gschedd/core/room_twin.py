"""Twins of room.py: what is free on a node, now and later."""

from __future__ import annotations

from collections.abc import Sequence

from gschedd.core.booking import owners
from gschedd.core.inputs import Policy
from gschedd.core.kernels.arrays import AVOIDED, MEMORY_ALL, MEMORY_EXACT, MUST
from gschedd.core.snapshot import Snapshot

Room = tuple[int, int, int]  # GPU mask, cores, memory
Span = tuple[int, int, Room]  # start, end, what it takes
Ahead = tuple[int, Span, int]  # guard, what is kept, AHEAD_OWNER


class RoomTwin:
    """The nodes over time, as lists. Numbers of nodes, classes and jobs are rows of the snapshot."""

    def __init__(self, snapshot: Snapshot, policy: Policy, now: int) -> None:
        self.s, self.policy, self.now = snapshot, policy, now
        self.size = snapshot.nodes.up.size
        self.held: list[list[Span]] = [[] for _ in range(self.size)]
        self.ahead: list[list[Ahead]] = [[] for _ in range(self.size)]
        self.owns = owners(snapshot)
        runs = snapshot.runs
        for row in range(runs.node.size):
            end = self.expected_end_py(row)
            takes = int(runs.gpus[row]), int(runs.cores[row]), int(runs.memory[row])
            self.held[runs.node[row]].append((0, end, takes))

    def expected_end_py(self, row: int) -> int:
        """When a row of what runs hold is given back."""
        run, end = int(self.s.runs.run[row]), int(self.s.runs.end[row])
        if end <= self.now:
            return self.now + self.policy.kill_time_s * 1000
        predicted, started = int(self.s.holds.predicted[run]), int(self.s.holds.started[run])
        if predicted < 0:
            return end
        began = started if started >= 0 else self.now
        lasts = max(predicted - began, 1)
        while began + lasts <= self.now:
            lasts *= 2
        return min(end, began + lasts)

    def memory_need_py(self, c: int, n: int) -> int:
        classes, nodes = self.s.classes, self.s.nodes
        if classes.memory_rule[c] == MEMORY_EXACT:
            return int(classes.memory[c])
        memory = int(nodes.memory[n])
        if classes.memory_rule[c] == MEMORY_ALL:
            return memory
        if classes.gpus[c]:
            return memory * int(classes.gpus[c]) // max(int(nodes.gpus[n]).bit_count(), 1)
        return memory * int(classes.cores[c]) // max(int(nodes.cores[n]), 1)

    def running_room_py(self, n: int, t: int) -> Room:
        nodes = self.s.nodes
        on = [takes for _, end, takes in self.held[n] if end > t]
        return _less((int(nodes.healthy[n]), int(nodes.cores[n]), int(nodes.memory[n])), on)

    def clear_py(self, c: int, j: int, n: int, start: int, end: int) -> Room:
        """(GPU mask, cores, memory) that job j of class c may use through the window, rows ahead kept whole."""
        room, rows = self.running_room_py(n, start), self.ahead[n]
        if all(end <= guard for guard, _, _ in rows) or all(start >= span[1] for _, span, _ in rows):
            return room
        certain = _less(room, [span[2] for _, span, _ in rows])
        return certain if self.member_fits_py(c, n, certain) else self.room_py(n, start, end, j, self.owns[c])

    def room_py(self, n: int, start: int, end: int, j: int, own: int) -> Room:
        """What is exactly free through the window beside the rows of others; to j = -1 only reservations are others."""

        def others_own(owner: int) -> bool:
            return owner < -1 and owner != own if j < 0 else owner == -1 or owner not in (j, own)

        others = [(guard, span) for guard, span, owner in self.ahead[n] if others_own(owner)]
        met = [span for guard, span in others if guard < end and span[1] > start]
        gpus, cores, memory = self.running_room_py(n, start)
        for first, _, takes in met:
            gpus &= ~takes[0]
            t = max(start, first)
            then = _less(self.running_room_py(n, t), [span[2] for _, span in others if span[0] <= t < span[1]])
            cores, memory = min(cores, then[1]), min(memory, then[2])
        return gpus, cores, memory

    def member_fits_py(self, c: int, n: int, room: Room) -> bool:
        classes = self.s.classes
        usable = room[0] & int(classes.usable[classes.gpu_row[c], n])
        return bool(
            usable.bit_count() >= classes.gpus[c]
            and room[1] >= classes.cores[c]
            and room[2] >= self.memory_need_py(c, n)
        )

    def eligible(self, c: int, n: int) -> int:
        return int(self.s.classes.eligible[self.s.classes.row[c], n])

    def takes_new(self, c: int, n: int) -> bool:
        eligible = self.eligible(c, n)
        return bool(self.s.nodes.up[n]) and eligible > 0 and not eligible & AVOIDED

    def enough(self, c: int, found: Sequence[int]) -> bool:
        required = sum(self.eligible(c, n) & MUST > 0 for n in found)
        return len(found) >= int(self.s.classes.least[c]) and required >= int(self.s.classes.required[c])


def _less(room: Room, takers: Sequence[Room]) -> Room:
    gpus, cores, memory = room
    for taken in takers:
        gpus, cores, memory = gpus & ~taken[0], cores - taken[1], memory - taken[2]
    return gpus, cores, memory
