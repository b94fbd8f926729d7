"""The plain twin of the search for victims: every set of victims is looked at, and the cheapest is taken.

For small cases only: the time doubles with each unit that could go. The kernel gives the same set there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, combinations

from msgspec import Struct

Fits = Callable[[int, frozenset[int]], bool]  # node, units let go: does it hold a member?


class Unit(Struct, frozen=True):
    """What can go at once: a run, or what an elastic run holds of one node. `number` is its place among all units."""

    number: int
    run: int
    nodes: frozenset[int]
    lost: int  # GPU-seconds
    reclaimed: bool = False  # may go because its account borrows, not because of its rank
    uses: tuple[int, ...] = ()  # thousandths of a GPU of each group of models


class RunOf(Struct, frozen=True):
    rank: int
    account: int = -1
    least: int = 0  # elastic: nodes it can go on with


class Account(Struct, frozen=True):
    parent: int = -1
    mine: bool = False  # the preemptor's, or above it
    guarantees: tuple[int, ...] = ()  # of each group; -1 = none
    used: tuple[int, ...] = ()


class Found(Struct, frozen=True):
    """The cheapest set and its cost, in the order of comparison."""

    rank: int
    lost: int
    victims: int
    units: int
    level: int
    domain: int
    gone: frozenset[int]


class VictimSearch(Struct, frozen=True):
    """One blocked job and those who may go."""

    units: Sequence[Unit]
    runs: Mapping[int, RunOf]
    accounts: Sequence[Account]
    levels: Sequence[Sequence[Sequence[int]]]  # nodes of each domain, level by level from the lowest
    open: frozenset[int]  # nodes that may take a member at all
    required: frozenset[int]  # nodes that must be in
    least: int
    fits: Fits
    ignores_level: bool = False  # one node, or no GPUs
    no_rank: int = 0

    def find_victims_py(self, level: int) -> Found | None:
        """Of all domains of the level and all sets: the least by (rank, lost, victims, units, level, domain, set)."""
        order = sorted(self.units, key=lambda unit: (unit.lost, unit.number))
        best: tuple[tuple[object, ...], Found] | None = None
        for d in range(len(self.levels[level])):
            for gone in self._sets(order, level, d):
                found = self._judge(gone, level, d)
                if found is None:
                    continue
                members = tuple(unit.number not in found.gone for unit in order)
                key = found.rank, found.lost, found.victims, found.units, found.level, found.domain, members
                if best is None or key < best[0]:
                    best = key, found
        return best[1] if best else None

    def _sets(self, order: Sequence[Unit], level: int, d: int) -> Iterator[tuple[Unit, ...]]:
        lacking = {n for n in self.levels[level][d] if n in self.open and not self.fits(n, frozenset())}
        runs = {unit.run for unit in order if unit.nodes & lacking}
        useful = [unit for unit in order if unit.run in runs]
        return chain.from_iterable(combinations(useful, count) for count in range(len(useful) + 1))

    def _judge(self, gone: tuple[Unit, ...], level: int, d: int) -> Found | None:
        """The set's cost; None where the job does not fit, or the set may not go."""
        numbers = frozenset(unit.number for unit in gone)
        fits = [n for n in self.levels[level][d] if n in self.open and self.fits(n, numbers)]
        if not self._enough(fits) or not self._allowed(gone):
            return None
        runs = {unit.run for unit in gone}
        rank = max((self.runs[run].rank for run in runs), default=self.no_rank)
        lost = sum(unit.lost for unit in gone)
        return Found(rank, lost, len(runs), len(gone), self._lowest(fits, level), d, numbers)

    def _enough(self, fits: Sequence[int]) -> bool:
        return len(fits) >= self.least and self.required <= set(fits)

    def _lowest(self, fits: Sequence[int], level: int) -> int:
        if self.ignores_level:
            return 0
        for lower in range(level):
            if any(self._enough([n for n in fits if n in domain]) for domain in self.levels[lower]):
                return lower
        return level

    def _allowed(self, gone: tuple[Unit, ...]) -> bool:
        """Elastic runs go whole or keep enough nodes; accounts that are reclaimed from keep their guarantees."""
        for run in {unit.run for unit in gone}:
            left = sum(unit.run == run for unit in self.units) - sum(unit.run == run for unit in gone)
            if 0 < left < max(self.runs[run].least, 1):
                return False
        lost = {a: [0] * len(account.used) for a, account in enumerate(self.accounts)}
        for unit in gone:
            for a in self._branch(unit):
                lost[a] = [one + more for one, more in zip(lost[a], unit.uses, strict=True)]
        reclaimed = {a for unit in gone if unit.reclaimed for a in self._branch(unit)}
        return all(
            used - less >= guarantee
            for a in reclaimed
            for used, less, guarantee in zip(self.accounts[a].used, lost[a], self.accounts[a].guarantees, strict=True)
        )

    def _branch(self, unit: Unit) -> Iterator[int]:
        """Accounts of a unit, up to the first that is also the preemptor's."""
        a = self.runs[unit.run].account
        while a >= 0 and not self.accounts[a].mine:
            yield a
            a = self.accounts[a].parent


class Side(Struct, frozen=True):
    """What the relation looks at of a job: its rank, and its branch of accounts from its own upwards.

    Each account: its name, and for each group of models its guarantee (-1 = none) and what it uses.
    """

    rank: int
    branch: tuple[tuple[str, tuple[tuple[int, int], ...]], ...] = ()


def may_preempt_py(a: Side, needs: Sequence[tuple[int, bool]], b: Side, uses: Sequence[int]) -> str:
    """Why A may preempt B: "rank", "reclaim" or "" for no. needs: amounts, and whether all of it is of the group."""
    if a.rank != b.rank:
        return "rank" if a.rank > b.rank else ""
    theirs, mine = {name for name, _ in b.branch}, {name for name, _ in a.branch}
    own = [groups for name, groups in a.branch if name not in theirs]
    given = any(
        guarantee >= 0 and amount and whole
        for groups in own
        for (guarantee, _), (amount, whole) in zip(groups, needs, strict=True)
    )
    within = all(
        guarantee < 0 or not amount or used + amount <= guarantee
        for groups in own
        for (guarantee, used), (amount, _) in zip(groups, needs, strict=True)
    )
    keeps = all(
        used - use >= guarantee
        for name, groups in b.branch
        if name not in mine
        for (guarantee, used), use in zip(groups, uses, strict=True)
    )
    return "reclaim" if given and within and keeps else ""
