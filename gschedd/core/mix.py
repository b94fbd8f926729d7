"""What jobs ask for, as a histogram that forgets, and the prices that follow from it.

The mix and the prices are input to a pass: whoever keeps them makes the prices anew now and then, never inside a pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from gschedd.core.kernels.arrays import Int64s
from gschedd.core.kernels.fragment import (
    PRICE_END,
    PRICE_LINE,
    PRICE_LINES,
    PRICE_SCARCE,
    PRICE_TIGHT,
    PRICE_VALUE,
)
from gschedd.core.kernels.shares import WHOLE

SEEN: Final = 1000  # what one arrival adds to its row of the mix
GPU: Final = 1_000_000  # a whole GPU in prices
FINE: Final = 1_000_000  # the kernels' units in one of these
PROPORTIONAL: Final = tuple(GPU // WHOLE * left for left in range(WHOLE + 1))


class Shape(Struct, frozen=True, order=True):
    """What one member asks of its node."""

    cores: int = 0  # thousandths of a core
    memory_mib: int = 0
    gpus: int = 0
    milli: int = 0  # thousandths of each GPU
    models: tuple[str, ...] = ()  # that it may use; () = any


class JobMix(Struct, frozen=True):
    """Shapes in order, each with its weight."""

    rows: tuple[tuple[Shape, int], ...] = ()

    def after(self, arrivals: Iterable[Shape], keep_milli: int = 1000) -> JobMix:
        """The mix once these arrived; what was known counts `keep_milli` thousandths of what it did."""
        weights = Counter({shape: weight * keep_milli // 1000 for shape, weight in self.rows})
        for shape in arrivals:
            weights[shape] += SEEN
        return JobMix(tuple(sorted((shape, weight) for shape, weight in weights.items() if weight > 0)))


class Line(Struct, frozen=True):
    """Idle GPU beyond what is free of cores (or of memory) can serve is charged."""

    cores: int = 0  # thousandths of a core that a whole GPU should keep; 0 = the line is of memory
    memory_mib: int = 0  # that a whole GPU should keep
    weight: int = 1000  # millionths of a GPU for each thousandth


class PriceList(Struct, frozen=True):
    """Integers, so that a pass depends on no machine's arithmetic. The default charges nothing but worth lost."""

    lines: tuple[Line, ...] = ()
    value: tuple[int, ...] = ()  # of each number of thousandths left, 0 to 1000; () = in proportion
    scarce: tuple[tuple[str, int], ...] = ()  # model, and millionths of a GPU for each thousandth
    tight: int = 0


class Tuning(Struct, frozen=True):
    """Set on the mix of the openb trace `default` (docs/decisions/0008-what-a-placement-costs.md)."""

    lines: tuple[Line, ...] = (
        Line(cores=8000, weight=1000),
        Line(cores=16000, weight=300),
        Line(memory_mib=45000, weight=300),
    )
    tight: int = 18
    tight_several: int = 55  # more, times the part of the demand that jobs for several GPUs of a node make up
    scarcity: int = 300
    value: int = 1000  # thousandths of the LP's prices


def price_list(mix: JobMix, capacity: Mapping[str, int], tuning: Tuning) -> PriceList:
    """Prices for a mix on a cluster with so many thousandths of GPU of each model."""
    if not any(shape.gpus for shape, _ in mix.rows):
        return PriceList()
    value = leftover_values(mix)
    mixed = [(v * tuning.value + p * (1000 - tuning.value)) // 1000 for v, p in zip(value, PROPORTIONAL, strict=True)]
    scarce = scarcity(mix, capacity, tuning.scarcity)
    return PriceList(tuning.lines, tuple(mixed), scarce, tuning.tight + several(mix, tuning.tight_several))


def price_array(prices: PriceList, models: Sequence[str]) -> Int64s:
    """The same for kernels (PRICE_ in kernels/fragment.py); models are numbered in this order."""
    array = np.zeros(PRICE_END, dtype=np.int64)
    array[PRICE_TIGHT], array[PRICE_LINES] = prices.tight * FINE, len(prices.lines)
    for i, line in enumerate(prices.lines):
        weight = line.weight * FINE // (line.cores or line.memory_mib)
        array[PRICE_LINE + 3 * i :][:3] = line.cores, line.memory_mib, weight
    scarce = dict(prices.scarce)
    for i, model in enumerate(models):
        array[PRICE_SCARCE + i] = scarce.get(model, 0) * FINE
    array[PRICE_VALUE:] = np.array(prices.value or PROPORTIONAL, dtype=np.int64) * FINE
    return array


def several(mix: JobMix, most: int) -> int:
    """`most` times the part of the GPU demand that asks for more than one GPU of a node."""
    demand = sum(shape.gpus * shape.milli * weight for shape, weight in mix.rows)
    part = sum(shape.gpus * shape.milli * weight for shape, weight in mix.rows if shape.gpus > 1)
    return most * part // demand if demand else 0


def scarcity(mix: JobMix, capacity: Mapping[str, int], most: int) -> tuple[tuple[str, int], ...]:
    """For each model: `most` times the part of its GPUs that jobs which name models would take.

    A job that names several is spread over them by capacity; demand is scaled to the capacity of the cluster.
    """
    named: Counter[str] = Counter()
    demand = sum(shape.gpus * shape.milli * weight for shape, weight in mix.rows)
    everything = sum(capacity.values())
    for shape, weight in mix.rows:
        known = sorted({model for model in shape.models if capacity.get(model)})
        room = sum(capacity[model] for model in known)
        for model in known:
            named[model] += shape.gpus * shape.milli * weight * capacity[model] // room
    if not demand:
        return ()
    return tuple(
        (model, most * min(named[model] * everything, demand * size) // (demand * size))
        for model, size in sorted(capacity.items())
        if size
    )


def leftover_values(mix: JobMix) -> list[int]:
    """Worth of 0 to 1000 thousandths left on a GPU, in millionths: the best knapsack of the mix's shares at LP prices.

    The prices are the dual of the cutting-stock LP "fewest GPUs for the mix of shares" (Gilmore and Gomory, 1961).
    """
    demand: Counter[int] = Counter()
    for shape, weight in mix.rows:
        if shape.gpus and shape.milli:
            demand[min(shape.milli, WHOLE)] += shape.gpus * weight
    sizes = sorted(demand)
    values, _ = _knapsack(sizes, cutting_prices(sizes, [demand[size] for size in sizes]))
    return [*(min(value, GPU) for value in values[:WHOLE]), GPU]  # rounded prices may come to a little more


def cutting_prices(sizes: Sequence[int], demand: Sequence[int]) -> list[int]:
    """Dual prices by column generation, rounded to millionths; a GPU's worth of shares never costs more than one."""
    from scipy.optimize import linprog  # slow to import, and wanted seldom

    patterns = [[WHOLE // size if i == j else 0 for j in range(len(sizes))] for i, size in enumerate(sizes)]
    scale = sum(demand)
    while True:
        columns = np.array(patterns, dtype=np.float64).T
        wanted = np.array(demand, dtype=np.float64) / scale
        solved = linprog(np.ones(len(patterns)), A_ub=-columns, b_ub=-wanted, method="highs")
        assert solved.status == 0, solved.message
        prices = [round(-float(price) * GPU) for price in solved.ineqlin.marginals]
        values, last = _knapsack(sizes, prices)
        if values[WHOLE] <= GPU + len(sizes):  # rounding
            return prices
        pattern = [0] * len(sizes)
        left = WHOLE
        while left > 0:
            if last[left] >= 0:
                pattern[last[left]] += 1
            left -= sizes[last[left]] if last[left] >= 0 else 1
        if pattern in patterns:
            return prices
        patterns.append(pattern)


def _knapsack(sizes: Sequence[int], prices: Sequence[int]) -> tuple[list[int], list[int]]:
    """(best worth, size taken last or -1) for each room of 0 to 1000; any number of each size. Room may stay unused."""
    values, last = [0] * (WHOLE + 1), [-1] * (WHOLE + 1)
    for room in range(1, WHOLE + 1):
        values[room], taken = values[room - 1], -1
        for i, size in enumerate(sizes):
            if size > room:
                break
            if values[room - size] + prices[i] > values[room]:
                values[room], taken = values[room - size] + prices[i], i
        last[room] = taken
    return values, last
