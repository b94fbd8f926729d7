"""Twins of find.py and place.py: which nodes hold a member, and which of them are taken."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from gschedd.core.inputs import Policy
from gschedd.core.kernels.arrays import (
    CLASS_ANYWHERE,
    CLASS_GPUS,
    CLASS_PREFER,
    CLASS_REQUIRED,
    CLASS_SEGMENT,
    MUST,
)
from gschedd.core.links_twin import best_class_py
from gschedd.core.room_twin import RoomTwin
from gschedd.core.snapshot import Snapshot
from gschedd.core.workspace import class_grid


class Spot(NamedTuple):
    """A node that holds a member."""

    gpus: int  # mask of usable ones
    left: int  # free GPUs once the member has its own
    cores: int  # cores left then


class Bounds(NamedTuple):
    """What a job may spread over."""

    ceiling: int  # the highest level that it may cross
    switches: int  # most leaf switches; 0 = any number


class PlaceTwin(RoomTwin):
    """Sets of nodes as lists and dicts."""

    def __init__(self, snapshot: Snapshot, policy: Policy, now: int) -> None:
        super().__init__(snapshot, policy, now)
        self.columns = class_grid(snapshot)

    def scan_py(self, c: int, j: int, start: int, end: int) -> dict[int, Spot]:
        """The nodes that hold a member of class c for job j through the window."""
        found = {}
        need, classes = int(self.columns[CLASS_GPUS, c]), self.s.classes
        for n in range(self.size):
            room, now = self.clear_py(c, j, n, start, end), self.running_room_py(n, start)
            if self.takes_new(c, n) and self.member_fits_py(c, n, room):
                usable = room[0] & int(classes.usable[classes.gpu_row[c], n])
                found[n] = Spot(usable, now[0].bit_count() - need, now[1] - int(classes.cores[c]))
        return found

    def unplanned_py(self, c: int) -> list[int]:
        """The nodes that would hold a member now if nothing were planned."""
        return [
            n
            for n in range(self.size)
            if self.takes_new(c, n) and self.member_fits_py(c, n, self.running_room_py(n, self.now))
        ]

    # How many, and in which domain.

    def musts(self, c: int, among: Collection[int]) -> int:
        return sum(self.eligible(c, n) & MUST > 0 for n in among)

    def takes_py(self, c: int, found: Collection[int], bounds: Bounds) -> int:
        """The most members that these nodes take together; 0 if required ones are not among them."""
        if self.musts(c, found) < self.columns[CLASS_REQUIRED, c]:
            return 0
        leaves = self.split_py(0, found)
        if any(self.whole_musts(c, leaf) > self.whole(c, leaf) for leaf in leaves):
            return 0
        every = sum(self.whole_musts(c, leaf) for leaf in leaves)
        domains = [d for d in self.split_py(bounds.ceiling, found) if self.musts(c, d) == self.musts(c, found)]
        most = max((self.members(c, d, bounds.switches) for d in domains), default=0)
        return most if most >= every else 0

    def whole(self, c: int, leaf: Sequence[int]) -> int:
        """Members that these nodes of one leaf switch take: whole segments."""
        segment = max(int(self.columns[CLASS_SEGMENT, c]), 1)
        return len(leaf) // segment * segment

    def whole_musts(self, c: int, leaf: Sequence[int]) -> int:
        segment = max(int(self.columns[CLASS_SEGMENT, c]), 1)
        return -(-self.musts(c, leaf) // segment) * segment

    def members(self, c: int, domain: Sequence[int], switches: int) -> int:
        """The most members that a domain takes on so many leaf switches."""
        leaves = self.split_py(0, domain)
        if not switches:
            return sum(self.whole(c, leaf) for leaf in leaves)
        first = [leaf for leaf in leaves if self.whole_musts(c, leaf)]
        if len(first) > switches:
            return 0
        others = sorted((self.whole(c, leaf) for leaf in leaves if leaf not in first), reverse=True)
        return sum(self.whole(c, leaf) for leaf in first) + sum(others[: switches - len(first)])

    def split_py(self, level: int, among: Collection[int]) -> list[list[int]]:
        """The nodes by their domain at a level, in topology order."""
        domains: dict[int, list[int]] = {}
        for n in sorted(among):
            domains.setdefault(int(self.s.tree.domain[level, n]), []).append(n)
        return list(domains.values())

    # Which nodes.

    def place_py(
        self, c: int, count: int, found: dict[int, Spot], bounds: Bounds, late: Sequence[int] = ()
    ) -> list[int]:
        """The nodes to take; none if no set of them will do."""
        if self.takes_py(c, found, bounds) < count:
            return []
        anywhere = count == 1 or self.columns[CLASS_ANYWHERE, c] or not self.columns[CLASS_GPUS, c] or late
        lowest = bounds.ceiling if anywhere else min(int(self.columns[CLASS_PREFER, c]), bounds.ceiling)
        level, domain = self.lowest_domain_py(c, count, found, bounds, lowest)
        bottom = 0 if bounds.switches or self.columns[CLASS_SEGMENT, c] > 1 else min(lowest, level)
        steps = [level, 0] if bounds.switches else list(range(level, bottom - 1, -1))
        parts = [(domain, count)]
        for below in steps[1:]:
            parts = [part for within, quota in parts for part in self.share_out_py(c, within, below, quota)]
        return sorted(n for within, quota in parts for n in self.take_py(c, quota, within, found, late))

    def lowest_domain_py(
        self, c: int, count: int, found: dict[int, Spot], bounds: Bounds, lowest: int
    ) -> tuple[int, list[int]]:
        """The lowest level with a domain that holds all; there fewest children, then fewest that fit."""
        for level in range(lowest, bounds.ceiling + 1):
            fitting = [
                domain
                for domain in self.split_py(level, found)
                if self.members(c, domain, bounds.switches) >= count and self.musts(c, domain) == self.musts(c, found)
            ]
            if fitting:
                plain = bool(bounds.switches) or level == 0
                return level, min(
                    fitting,
                    key=lambda domain: (
                        0 if plain else self.children_used_py(c, level, domain, count),
                        self.members(c, domain, 0),
                    ),
                )
        raise AssertionError("the ceiling holds them: they were counted")

    def children_used_py(self, c: int, level: int, domain: Sequence[int], count: int) -> int:
        """How many child domains so many members need: those with required nodes, then the largest."""
        children = [
            (self.musts(c, child) > 0, sum(self.whole(c, leaf) for leaf in self.split_py(0, child)))
            for child in self.split_py(level - 1, domain)
        ]
        used = 0
        for required, takes in sorted(children, reverse=True):
            if count > 0 or required:
                used += 1
                count -= takes
        return used

    def share_out_py(self, c: int, within: Sequence[int], below: int, count: int) -> list[tuple[list[int], int]]:
        """Share `count` members out to the domains at a lower level: fewest of them, the last by best fit."""
        children = self.split_py(below, within)
        whole = [sum(self.whole(c, leaf) for leaf in self.split_py(0, child)) for child in children]
        quotas = [sum(self.whole_musts(c, leaf) for leaf in self.split_py(0, child)) for child in children]
        left = count - sum(quotas)
        while left > 0:
            spare = [takes - quota for takes, quota in zip(whole, quotas, strict=True)]
            used = [i for i, quota in enumerate(quotas) if quota and spare[i] > 0]
            among = used or [i for i, free in enumerate(spare) if free > 0]
            enough = [i for i in among if spare[i] >= left]
            pick = min(enough, key=lambda i: (spare[i], i)) if enough else min(among, key=lambda i: (-spare[i], i))
            taken = min(spare[pick], left)
            quotas[pick] += taken
            left -= taken
        return [(child, quota) for child, quota in zip(children, quotas, strict=True) if quota]

    def take_py(
        self, c: int, count: int, within: Sequence[int], found: dict[int, Spot], late: Sequence[int] = ()
    ) -> list[int]:
        """The best `count` nodes by the order of candidates."""
        leaf = self.s.tree.domain[0]
        around = {n: sum(leaf[other] == leaf[n] for other in found) for n in within}
        return sorted(within, key=lambda n: self.key_py(c, n, found[n], around[n], n in late))[:count]

    def key_py(self, c: int, n: int, spot: Spot, around: int, late: bool = False) -> tuple[int, ...]:
        need, kind = int(self.columns[CLASS_GPUS, c]), int(self.s.nodes.links[n])
        must = 0 if self.eligible(c, n) & MUST else 1
        worst = best_class_py(self.s.links, kind, spot.gpus, need)
        return must, late, worst, min(spot.left, 63), min(spot.cores, 32767), min(around, 4095), n

    def best_one_py(self, c: int, found: dict[int, Spot]) -> int:
        """The node that a job of one node starts on now."""
        among = [n for n in found if self.eligible(c, n) & MUST or not self.columns[CLASS_REQUIRED, c]]
        leaf, need = self.s.tree.domain[0], int(self.columns[CLASS_GPUS, c])
        might = [
            n
            for n in range(self.size)
            if self.takes_new(c, n) and self.running_room_py(n, self.now)[0].bit_count() >= need
        ]
        around = {n: sum(leaf[other] == leaf[n] for other in might) for n in among}
        return min(among, key=lambda n: self.key_py(c, n, found[n], around[n]), default=-1)
