"""The nodes' side of the board: columns in topology order, and what each node is to a request by its constraints.

A node's state and its healthy GPUs are written in place. Another node, or another thing said of what one is, makes the
whole side anew before the next pass.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final, TypeAlias, TypeVar

import numpy as np
from msgspec.structs import replace

from gsched.values.ids import NodeName
from gsched.values.node import Gpu
from gschedd.core.features import all_gpus, features_match, usable_gpus
from gschedd.core.inputs import Availability, NodeInput
from gschedd.core.kernels.arrays import AVOIDED, MAY, MUST, Bytes, Int64s, Links, Tree
from gschedd.core.link_tables import link_arrays
from gschedd.core.topology_order import TopologyKey, topology_key, tree_of

MOST_GPUS: Final = 62  # per node: a mask stays a positive int64
MOST_NODES: Final = 1 << 20  # the node index has 20 bits of a sort key

# partition, constraint, nodelist, exclude, avoid
EligibleKey: TypeAlias = tuple[str, str, tuple[NodeName, ...], tuple[NodeName, ...], tuple[NodeName, ...]]
UsableKey: TypeAlias = tuple[str, int, str]  # model, least memory (MiB), MIG profile
Label = TypeVar("Label", bound=Hashable)


class _Known:
    """A node with what is worked out once for each time it is said what it is."""

    __slots__ = ("gpus", "gpus_alike", "kind", "links", "node", "order")

    def __init__(self, node: NodeInput) -> None:
        self.node = node
        self.order: TopologyKey = topology_key(node)
        self.gpus = all_gpus(node.inventory)
        assert self.gpus.bit_length() <= MOST_GPUS
        self.kind = node.partitions, node.features
        self.links = self.gpus.bit_length(), node.inventory.links
        self.gpus_alike = tuple(Gpu(g.index, "", g.model, g.memory_mib) for g in node.inventory.gpus)


class NodeColumns:
    """Every known node. The columns are right after `refresh`."""

    def __init__(self) -> None:
        self._known: dict[NodeName, _Known] = {}
        self._slots: dict[NodeName, int] = {}
        self._stale = True
        self.shape = 0  # counts how often the order or the constraints' answers became other ones
        self.names: tuple[NodeName, ...] = ()
        self.index: dict[NodeName, int] = {}
        self.place = np.zeros(0, dtype=np.int64)  # by slot: the node's index; -1 = not known
        self.gpu_sets: list[tuple[Gpu, ...]] = []  # the distinct sets of GPUs that a node has
        self.gpu_set = self.place  # each node's
        self.up = self.cores = self.memory = self.gpus = self.healthy = self.links_kind = self.place

    def put(self, node: NodeInput) -> None:
        """Enter a node, or say another thing of one."""
        known = self._known.get(node.name)
        if known is None or not _is_the_same_but_for_its_state(known.node, node):
            self._known[node.name] = _Known(node)
            self.slot(node.name)
            self._stale = True
            return
        known.node = node
        if not self._stale:
            self._write_state(self.index[node.name], known)

    def drop(self, name: NodeName) -> None:
        """Forget a node; what runs hold of it stays entered."""
        if self._known.pop(name, None) is not None:
            self._stale = True

    def slot(self, name: NodeName) -> int:
        """The number that a name keeps, known or not."""
        return self._slots.setdefault(name, len(self._slots))

    def refresh(self) -> None:
        """Make the columns right."""
        if self._stale:
            self._arrange()
            self._stale = False
        if len(self._slots) > self.place.size:  # runs on nodes not known yet
            self.place = np.append(self.place, np.full(len(self._slots) - self.place.size, -1, dtype=np.int64))

    def eligible_row(self, key: EligibleKey) -> Bytes:
        """What each node is to such a request: 0, or MAY, MUST and AVOIDED."""
        partition, constraint, nodelist, exclude, avoid = key
        answers = [
            MAY * (partition in partitions and features_match(constraint, features))
            for partitions, features in self._kinds
        ]
        row: Bytes = np.array(answers, dtype=np.uint8)[self._kind]
        for names, bit in ((nodelist, MUST), (avoid, AVOIDED)):
            for name in names:
                if name in self.index and row[self.index[name]]:
                    row[self.index[name]] |= bit
        for name in exclude:
            if name in self.index:
                row[self.index[name]] = 0
        return row

    def usable_row(self, key: UsableKey) -> Int64s:
        """Masks: each node's GPUs of that model with so much memory that can be cut so."""
        masks = [usable_gpus(*key, gpus) for gpus in self.gpu_sets]
        return np.array(masks, dtype=np.int64)[self.gpu_set]

    # --- inside

    def _arrange(self) -> None:
        ordered = sorted(self._known.values(), key=lambda known: known.order)
        assert len(ordered) < MOST_NODES
        nodes = [known.node for known in ordered]
        self.shape += 1
        self.names = tuple(node.name for node in nodes)
        self.index = {name: i for i, name in enumerate(self.names)}
        self.place = np.full(len(self._slots), -1, dtype=np.int64)
        self.place[[self._slots[name] for name in self.names]] = np.arange(len(nodes))
        self.cores = _int64s([node.inventory.cpus for node in nodes])
        self.memory = _int64s([node.inventory.memory_mib for node in nodes])
        self.gpus = _int64s([known.gpus for known in ordered])
        self.up, self.healthy = np.zeros_like(self.gpus), np.zeros_like(self.gpus)
        for n, known in enumerate(ordered):
            self._write_state(n, known)
        self.tree: Tree = tree_of([node.switches for node in nodes])
        self.links: Links
        self.links, kinds = link_arrays([known.links for known in ordered])
        self.links_kind = _int64s(kinds)
        self._kinds, self._kind = _distinct([known.kind for known in ordered])
        self.gpu_sets, self.gpu_set = _distinct([known.gpus_alike for known in ordered])

    def _write_state(self, n: int, known: _Known) -> None:
        self.up[n] = known.node.availability is Availability.UP
        self.healthy[n] = known.gpus & ~known.node.gpus_out


def _is_the_same_but_for_its_state(old: NodeInput, new: NodeInput) -> bool:
    return replace(old, availability=new.availability, gpus_out=new.gpus_out) == new


def _distinct(values: Sequence[Label]) -> tuple[list[Label], Int64s]:
    """(the distinct ones, for each value the number of its own)."""
    numbers: dict[Label, int] = {}
    of = _int64s([numbers.setdefault(value, len(numbers)) for value in values])
    return list(numbers), of


def _int64s(values: Sequence[int]) -> Int64s:
    return np.array(values, dtype=np.int64)
