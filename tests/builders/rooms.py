"""Small nodes and demands for tests of packing: at random, and as the kernels' arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from gschedd.core.fragment_twin import Demand, Room, Type
from gschedd.core.kernels.arrays import Grid
from gschedd.core.kernels.shares import (
    ROOM_CORES,
    ROOM_FREE,
    ROOM_GPUS,
    ROOM_IDLE,
    ROOM_LARGEST,
    ROOM_MEMORY,
    ROOM_MODEL,
    ROOM_WHOLE,
    WHOLE,
)
from gschedd.core.mix import Line, PriceList

MODELS = ("A", "B", "C")
LEFT = st.sampled_from([0, 100, 190, 350, 500, 530, 810, 1000, 1000])


@st.composite
def rooms(draw: st.DrawFn, most_gpus: int = 4) -> Room:
    milli = draw(st.lists(LEFT, max_size=most_gpus))
    mib = draw(st.lists(st.sampled_from([0, 8, 16]), min_size=len(milli), max_size=len(milli)))
    model = draw(st.integers(0, len(MODELS) - 1)) if milli else -1
    return Room(draw(st.integers(0, 40)) * 1000, draw(st.integers(0, 100)), model, tuple(milli), tuple(mib))


@st.composite
def demands(draw: st.DrawFn) -> Demand:
    gpus, milli = draw(st.sampled_from([(0, 0), (1, 100), (1, 190), (1, 470), (1, 810), (1, 1000), (2, 1000)]))
    models = draw(st.one_of(st.none(), st.frozensets(st.integers(0, len(MODELS) - 1)))) if gpus else None
    mib = draw(st.sampled_from([0, 0, 8])) if gpus else 0
    return Demand(draw(st.integers(0, 20)) * 1000, draw(st.integers(0, 50)), gpus, milli, mib, models)


@st.composite
def price_lists(draw: st.DrawFn) -> PriceList:
    lines = st.one_of(
        st.builds(Line, cores=st.sampled_from([4000, 8000]), weight=st.integers(0, 2000)),
        st.builds(Line, memory_mib=st.integers(1, 60), weight=st.integers(0, 2000)),
    )
    steps = draw(st.lists(st.integers(0, 1000), min_size=WHOLE, max_size=WHOLE)) if draw(st.booleans()) else None
    value = tuple(np.cumsum([0, *steps]).tolist()) if steps else ()
    scarce = tuple((model, draw(st.integers(0, 500))) for model in MODELS)
    return PriceList(tuple(draw(st.lists(lines, max_size=3))), value, scarce, draw(st.integers(0, 50)))


types = st.lists(st.builds(Type, demands(), st.integers(1, 9)), min_size=1, max_size=5)


def as_rooms(nodes: Sequence[Room]) -> Grid:
    grid = np.zeros((len(nodes), ROOM_FREE + 2 * max(1, *(len(node.milli) for node in nodes), 1)), dtype=np.int64)
    for n, node in enumerate(nodes):
        size = len(node.milli)
        grid[n, [ROOM_CORES, ROOM_MEMORY, ROOM_GPUS, ROOM_MODEL]] = node.cores, node.memory, size, node.model
        grid[n, [ROOM_IDLE, ROOM_LARGEST]] = node.idle, max(node.milli, default=0)
        grid[n, ROOM_WHOLE] = node.milli.count(WHOLE)
        grid[n, ROOM_FREE : ROOM_FREE + 2 * size : 2] = node.milli
        grid[n, ROOM_FREE + 1 : ROOM_FREE + 1 + 2 * size : 2] = node.mib
    return grid


def as_demands(wanted: Sequence[Demand]) -> Grid:
    columns = [[d.cores, d.memory, d.gpus, d.milli, d.mib, mask(d)] for d in wanted]
    return np.array(columns, dtype=np.int64).T.copy()


def as_types(kinds: Sequence[Type]) -> Grid:
    columns = [[k.demand.cores, k.demand.gpus, k.demand.milli, mask(k.demand), k.count] for k in kinds]
    return np.array(columns, dtype=np.int64).T.copy()


def mask(demand: Demand) -> int:
    return -1 if demand.models is None else sum(1 << model for model in demand.models)
