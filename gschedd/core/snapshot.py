"""The cluster and its queue as arrays: what a pass reads. A board (board.py) keeps them right and gives them out."""

from __future__ import annotations

from msgspec import Struct

from gsched.values.ids import NodeName
from gsched.values.job import Request
from gsched.values.node import Gpu
from gschedd.core.inputs import AccountInput, ClaimInput, CounterInput, PlannedStart, ReservationInput
from gschedd.core.kernels.arrays import (
    ClassArrays,
    FactorArrays,
    HoldArrays,
    Int64s,
    Links,
    NodeArrays,
    QueueArrays,
    RunArrays,
    ShapeArrays,
    Tree,
)


class Snapshot(Struct, frozen=True):
    """What a pass decides on. Nodes are in topology order, so every switch is one contiguous range.

    The numbers of classes and accounts, and the rows of the queue, of shares and of runs, are in no order: no plan may
    depend on it.
    """

    names: tuple[NodeName, ...]
    nodes: NodeArrays
    tree: Tree
    links: Links
    classes: ClassArrays
    queue: QueueArrays
    runs: RunArrays
    requests: tuple[Request, ...]  # one for each class, for words only
    factors: FactorArrays
    holds: HoldArrays
    shapes: ShapeArrays
    shape_names: tuple[str, ...]
    account_names: tuple[str, ...]
    gpu_sets: tuple[tuple[Gpu, ...], ...]  # the distinct sets of GPUs that a node has
    gpu_set: Int64s  # (n,) each node's
    levels: tuple[str, ...] = ()  # names of the topology levels, from the lowest switch up
    reservations: tuple[ReservationInput, ...] = ()
    claims: tuple[ClaimInput, ...] = ()
    accounts: tuple[AccountInput, ...] = ()
    counters: tuple[CounterInput, ...] = ()
    planned: tuple[PlannedStart, ...] = ()  # of the last pass
    groups: tuple[tuple[str, Int64s], ...] = ()  # of models that accounts have guarantees for: each node's GPUs of it
