"""Fills a cluster with arriving pods under one policy, and measures what came of it.

Arrivals as in the published runs of FGD: every pod of the list once, in random order, then pods drawn from the list
with replacement, until the GPU demand that arrived is a given part of the cluster's. Nobody leaves. The published
shuffles were made by Go's generator, ours by Python's: the same law, other orders.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import pairwise
from math import ceil, log
from random import Random
from time import thread_time
from typing import Final

import numpy as np
from msgspec import Struct

from gschedd.core.kernels.arrays import Grid, Int64s
from gschedd.core.kernels.fill import (
    ARRIVAL_GPUS,
    ARRIVAL_KIND,
    ARRIVAL_NODE,
    BEST_FIT,
    FGD,
    FIRST_FIT,
    OURS,
    fill_nb,
    fits_somewhere_nb,
)
from gschedd.core.kernels.fragment import TYPE_COUNT, fragmented_nb
from gschedd.core.kernels.shares import (
    ROOM_CORES,
    ROOM_FRAGMENTED,
    ROOM_FREE,
    ROOM_GPUS,
    ROOM_IDLE,
    ROOM_LARGEST,
    ROOM_MEMORY,
    ROOM_MODEL,
    ROOM_WHOLE,
    WHOLE,
)
from gschedd.core.mix import JobMix, Shape, Tuning, price_array, price_list
from gschedd.replay.openb import TraceNode, TracePod

PRICED_AT: Final = (100, 300, 1000)  # arrivals after which prices are made anew, where they are learnt; then each 1,000
POPULAR_PERCENT: Final = 95  # FGD's mix leaves the rarest types of pods out


class PackPolicy(StrEnum):
    FIRST_FIT = "first-fit"
    BEST_FIT = "best-fit"
    FGD = "fgd"
    GSCHED = "gsched"


class PriceSource(StrEnum):
    KNOWN = "known"  # from the whole pod list
    LEARNT = "learnt"  # from what has arrived so far


_NUMBER: Final = {
    PackPolicy.FIRST_FIT: FIRST_FIT,
    PackPolicy.BEST_FIT: BEST_FIT,
    PackPolicy.FGD: FGD,
    PackPolicy.GSCHED: OURS,
}


class Case:
    """A cluster and the pods that come to it, as arrays. Kinds are pods that ask for the same."""

    def __init__(self, nodes: Sequence[TraceNode], pods: Sequence[TracePod]) -> None:
        self.nodes = nodes
        self.pods = pods
        self.capacity: Counter[str] = Counter()
        for node in nodes:
            if node.gpus:
                self.capacity[node.model] += node.gpus * WHOLE
        self.models = sorted(self.capacity)
        self.gpu_milli = sum(self.capacity.values())
        self.shapes = sorted({pod.shape for pod in pods})
        place = {shape: kind for kind, shape in enumerate(self.shapes)}
        self.kinds = np.array([place[pod.shape] for pod in pods], dtype=np.int64)
        self.demands = _demands(self.shapes, self.models)
        self.asked = np.array([shape.gpus * shape.milli for shape in self.shapes], dtype=np.int64)
        self._prices: dict[tuple[JobMix, Tuning], Int64s] = {}
        self.types = _typical(pods, self.models)
        self.steps = _steps(int(self.types[TYPE_COUNT].sum()))

    def rooms(self) -> Grid:
        """The empty cluster, as kernels/shares.py has it."""
        rooms = np.zeros((len(self.nodes), ROOM_FREE + 2 * max(node.gpus for node in self.nodes)), dtype=np.int64)
        for n, node in enumerate(self.nodes):
            rooms[n, ROOM_CORES], rooms[n, ROOM_MEMORY], rooms[n, ROOM_GPUS] = node.cores, node.memory_mib, node.gpus
            rooms[n, ROOM_MODEL] = self.models.index(node.model) if node.gpus else -1
            rooms[n, ROOM_IDLE], rooms[n, ROOM_WHOLE] = node.gpus * WHOLE, node.gpus
            rooms[n, ROOM_LARGEST] = WHOLE if node.gpus else 0
            rooms[n, ROOM_FREE : ROOM_FREE + 2 * node.gpus : 2] = WHOLE
        return rooms

    def prices(self, mix: JobMix, tuning: Tuning) -> Int64s:
        """gsched's prices for a mix on this cluster; solved once for each."""
        key = (mix, tuning)
        if key not in self._prices:
            self._prices = {key: price_array(price_list(mix, self.capacity, tuning), self.models)}
        return self._prices[key]

    def arrivals(self, seed: int, load: float) -> Int64s:
        """Indices of pods in order of arrival until the demand that arrived is `load` times the cluster's."""
        random = Random(seed)
        order = sorted(range(len(self.pods)), key=lambda _: random.random())
        demand = self.asked[self.kinds]
        target = load * self.gpu_milli
        came = int(demand[order].sum())
        while came < target:
            pod = int(random.random() * len(self.pods))
            order.append(pod)
            came += int(demand[pod])
        reached = np.cumsum(demand[order])
        return np.array(order[: int(np.searchsorted(reached, target)) + 1], dtype=np.int64)


class Outcome(Struct, frozen=True):
    """One policy on one seed."""

    seed: int
    node: Int64s  # of each arrival; -1 = rejected
    gpus: Int64s  # mask
    allocation_percent: float  # GPU demand placed of the cluster's GPUs
    fragmentation_percent: float  # FGD's measure of the idle GPUs that the mix cannot use, of the cluster's GPUs
    multi_gpu_percent: float  # of the demand of pods for several GPUs: how much of it was placed
    cpu_only_percent: float  # of the pods without GPU: how many were placed
    decision_us: float  # CPU time


def fill(
    case: Case,
    policy: PackPolicy,
    seed: int,
    arrivals: Int64s,
    *,
    source: PriceSource = PriceSource.KNOWN,
    tuning: Tuning | None = None,
) -> Outcome:
    """Place the arrivals one by one. Raises AssertionError if a pod that fits somewhere was turned away."""
    rooms, number, tuning = case.rooms(), _NUMBER[policy], tuning or Tuning()
    places = np.zeros((4, arrivals.size), dtype=np.int64)
    places[ARRIVAL_KIND] = case.kinds[arrivals]
    costs = np.zeros((len(case.shapes), len(case.nodes)), dtype=np.int64)
    seen = np.append(np.full(len(case.shapes), -1, dtype=np.int64), 0)
    mix = JobMix() if source is PriceSource.LEARNT else JobMix().after(pod.shape for pod in case.pods)
    prices = case.prices(mix, tuning)
    for n in range(len(case.nodes) if policy is PackPolicy.FGD else 0):
        rooms[n, ROOM_FRAGMENTED] = fragmented_nb(case.types, rooms, n)
    fixed, spent = (case.types, case.steps, costs, seen, places), 0.0
    fill_nb(number, rooms, case.demands, prices, *fixed, 0, 0)  # compiles where nothing has: no part of a decision
    for first, end in pairwise((0, *(n for n in _pricings(arrivals.size) if n < arrivals.size), arrivals.size)):
        at = first
        while at < end:
            began = thread_time()
            at = fill_nb(number, rooms, case.demands, prices, *fixed, at, end)
            spent += thread_time() - began
            if at < end:
                if fits_somewhere_nb(rooms, case.demands, places[ARRIVAL_KIND, at]):
                    raise AssertionError(f"{policy}, seed {seed}: arrival {at} was turned away though it fits")
                at += 1
        if policy is PackPolicy.GSCHED and source is PriceSource.LEARNT:
            mix = mix.after(case.shapes[kind] for kind in places[ARRIVAL_KIND, first:end].tolist())
            prices = case.prices(mix, tuning)
            seen[:-1] = -1
    return _outcome(case, seed, rooms, places, spent)


def _pricings(arrivals: int) -> Iterator[int]:
    yield from PRICED_AT
    yield from range(PRICED_AT[-1] * 2, arrivals, PRICED_AT[-1])


def spread(values: Sequence[float]) -> float:
    """Standard deviation over the seeds; 0 for one seed."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def _outcome(case: Case, seed: int, rooms: Grid, places: Grid, spent: float) -> Outcome:
    placed, asked = places[ARRIVAL_NODE] >= 0, case.asked[places[ARRIVAL_KIND]]
    several, without = asked > WHOLE, asked == 0
    fragmented = sum(fragmented_nb(case.types, rooms, n) for n in range(len(case.nodes)))
    return Outcome(
        seed=seed,
        node=places[ARRIVAL_NODE],
        gpus=places[ARRIVAL_GPUS],
        allocation_percent=100 * int(asked[placed].sum()) / case.gpu_milli,
        fragmentation_percent=100 * fragmented / int(case.types[TYPE_COUNT].sum()) / case.gpu_milli,
        multi_gpu_percent=_percent(int(asked[placed & several].sum()), int(asked[several].sum())),
        cpu_only_percent=_percent(int((placed & without).sum()), int(without.sum())),
        decision_us=spent * 1e6 / max(asked.size, 1),
    )


def _percent(part: int, whole: int) -> float:
    """Of nothing, all was placed."""
    return 100 * part / whole if whole else 100.0


def _demands(shapes: Sequence[Shape], models: Sequence[str]) -> Grid:
    """One column a shape. A model that no node has matches none."""
    columns = [[s.cores, s.memory_mib, s.gpus, s.milli, 0, _mask(s, models)] for s in shapes]
    return np.array(columns, dtype=np.int64).T.copy()


def _mask(shape: Shape, models: Sequence[str]) -> int:
    return sum(1 << models.index(model) for model in shape.models if model in models) if shape.models else -1


def _typical(pods: Sequence[TracePod], models: Sequence[str]) -> Grid:
    """FGD's typical pods: the most frequent types (memory left aside) up to 95 % of the pods."""
    counts = Counter((p.shape.cores, p.shape.milli, p.shape.gpus, "|".join(p.shape.models)) for p in pods)
    rows: list[list[int]] = []
    taken = 0
    for (cores, milli, gpus, names), count in sorted(counts.items(), key=lambda item: (item[1], item[0]), reverse=True):
        if 100 * taken >= POPULAR_PERCENT * len(pods):
            break
        taken += count
        spec = Shape(models=tuple(names.split("|")) if names else ())
        rows.append([cores, gpus, milli, _mask(spec, models), count])
    return np.array(rows, dtype=np.int64).T.copy()


def _steps(total: int) -> Int64s:
    """The least fragmentation taken away, in GPUs, thousandfold and times the counts, that scores 1, 2... 99 of 100."""
    return np.array([ceil(WHOLE * total * log(k / (100 - k))) for k in range(1, 100)], dtype=np.int64)
