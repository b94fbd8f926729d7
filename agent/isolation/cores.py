"""Which cores each run here has: near its GPUs, and nobody else's. A pretended machine's cores cannot be given out."""

from __future__ import annotations

from collections.abc import Collection

from gsched.topology.near import cores_near
from gsched.values.ids import RunKey
from gsched.values.node import Inventory, NumaNode


class CoreBook:
    """What is given out. inventory: None, or of a pretended machine: no run is pinned. usable: cores by number."""

    def __init__(self, inventory: Inventory | None, usable: Collection[int]) -> None:
        self._free = 0
        self._given: dict[RunKey, int] = {}
        self._numa: tuple[NumaNode, ...] = ()
        self._gpu_numa: tuple[int, ...] = ()
        self.pins = inventory is not None and not inventory.simulated
        if inventory is not None and self.pins:
            self._free = sum(1 << core for core in usable)
            self._numa = inventory.numa_nodes or (NumaNode(0, ((0, max(usable, default=0)),)),)
            self._gpu_numa = _by_index(inventory)

    def take(self, key: RunKey, count: int, gpus: Collection[int]) -> tuple[int, ...]:
        """Cores for a run, its own until `give_back`; the same again if it has some. () = it is not pinned.

        A run is pinned to all that it asked for or not at all: with less it would be slower than without.
        """
        if not self.pins:
            return ()
        if key in self._given:
            return _numbers(self._given[key])
        mask = sum(1 << index for index in gpus)
        cores = cores_near(self._numa, self._gpu_numa, mask, self._free, count).cores
        if len(cores) < count:
            return ()
        self.restore(key, cores)
        return cores

    def restore(self, key: RunKey, cores: Collection[int]) -> None:
        """A run has these already."""
        if self.pins and cores and key not in self._given:
            self._given[key] = sum(1 << core for core in cores)
            self._free &= ~self._given[key]

    def give_back(self, key: RunKey) -> None:
        """Nothing of the run is left here."""
        self._free |= self._given.pop(key, 0)


def _by_index(inventory: Inventory) -> tuple[int, ...]:
    """The NUMA node of each GPU by its index; -1 where an index is missing."""
    nodes = {gpu.index: gpu.numa_node for gpu in inventory.gpus}
    return tuple(nodes.get(index, -1) for index in range(max(nodes, default=-1) + 1))


def _numbers(mask: int) -> tuple[int, ...]:
    return tuple(core for core in range(mask.bit_length()) if mask >> core & 1)
