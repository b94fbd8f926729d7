"""Plain twins of kernels/shares.py, fragment.py and fill.py: what they should do, on lists of small values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gschedd.core.kernels.shares import WHOLE
from gschedd.core.mix import FINE, PROPORTIONAL, PriceList


@dataclass(frozen=True)
class Room:
    """What is free of a node."""

    cores: int
    memory: int
    model: int  # -1 = it has no GPU
    milli: tuple[int, ...] = ()  # of each GPU
    mib: tuple[int, ...] = ()

    @property
    def idle(self) -> int:
        return sum(self.milli)


@dataclass(frozen=True)
class Demand:
    cores: int
    memory: int
    gpus: int = 0
    milli: int = 0
    mib: int = 0
    models: frozenset[int] | None = None  # None = any

    @property
    def cut(self) -> bool:
        return 0 < self.milli < WHOLE


@dataclass(frozen=True)
class Type:
    """One of FGD's types of pods."""

    demand: Demand
    count: int


def holders_py(room: Room, demand: Demand) -> list[int]:
    """GPUs that have what the demand asks of each of its GPUs."""
    return [
        g for g, (m, b) in enumerate(zip(room.milli, room.mib, strict=True)) if m >= demand.milli and b >= demand.mib
    ]


def fits_py(room: Room, demand: Demand) -> bool:
    if room.cores < demand.cores or room.memory < demand.memory:
        return False
    if not demand.gpus:
        return True
    allowed = room.model >= 0 and (demand.models is None or room.model in demand.models)
    return allowed and len(holders_py(room, demand)) >= demand.gpus


def taken_py(room: Room, demand: Demand, gpus: Sequence[int]) -> Room:
    """The room after the demand has its part."""
    return replace(
        room,
        cores=room.cores - demand.cores,
        memory=room.memory - demand.memory,
        milli=tuple(m - demand.milli * (g in gpus) for g, m in enumerate(room.milli)),
        mib=tuple(b - demand.mib * (g in gpus) for g, b in enumerate(room.mib)),
    )


def strain_py(prices: PriceList, room: Room) -> int:
    total = 0
    for line in prices.lines:
        per, free = (line.cores, room.cores) if line.cores else (line.memory_mib, room.memory)
        total += max(0, room.idle * per - free * WHOLE) * (line.weight * FINE // per)
    return total


def worth_py(prices: PriceList, room: Room) -> int:
    """Of what is left on all its GPUs."""
    value = prices.value or PROPORTIONAL
    return FINE * sum(value[left] for left in room.milli)


def price_py(prices: PriceList, models: Sequence[str], room: Room, demand: Demand) -> tuple[int, list[int]]:
    """(cost, GPUs): for a part of a GPU every GPU that holds it is tried; whole ones are the lowest."""
    choices = [[g] for g in holders_py(room, demand)] if demand.cut else [holders_py(room, demand)[: demand.gpus]]

    def cost(gpus: Sequence[int]) -> int:
        after = taken_py(room, demand, gpus)
        total = strain_py(prices, after) - strain_py(prices, room) + prices.tight * FINE * room.idle
        if room.model >= 0:
            total += dict(prices.scarce).get(models[room.model], 0) * FINE * (room.idle - after.idle)
        return total + (worth_py(prices, room) - worth_py(prices, after) if demand.cut else 0)

    best = min(choices, key=lambda gpus: (cost(gpus), [room.milli[g] for g in gpus] if demand.cut else [], gpus))
    return cost(best), best


def fragmented_py(types: Sequence[Type], room: Room) -> int:
    """The definition: for each type all idle GPU, or what is on GPUs too small for it where the type fits."""
    total = 0
    for kind in types:
        free = replace(room, memory=kind.demand.memory)  # FGD looks at no memory
        if kind.demand.gpus and fits_py(free, kind.demand):
            total += kind.count * sum(left for left in room.milli if left < kind.demand.milli)
        else:
            total += kind.count * room.idle
    return total


def fgd_py(types: Sequence[Type], steps: Sequence[int], room: Room, demand: Demand) -> tuple[int, list[int]]:
    """(100 - score, GPUs)."""
    choices = [[g] for g in holders_py(room, demand)] if demand.cut else [holders_py(room, demand)[: demand.gpus]]
    before = fragmented_py(types, room)

    def cost(gpus: Sequence[int]) -> int:
        gained = before - fragmented_py(types, taken_py(room, demand, gpus))
        return 100 - sum(step <= gained for step in steps)

    best = min(choices, key=lambda gpus: (cost(gpus), gpus))
    return cost(best), best
