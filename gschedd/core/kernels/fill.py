"""Placing demands one after another, each on the node with the least cost: every policy by this one path.

The cost of a kind of demand on a node changes only when that node does, so costs are kept, and before a decision only
the nodes that changed since that kind was last looked at are priced again.
"""

from __future__ import annotations

from typing import Final

from gschedd.core.kernels.arrays import Grid, Int64s
from gschedd.core.kernels.compiled import kernel
from gschedd.core.kernels.fragment import best_fit_nb, fgd_nb, fragmented_nb, price_nb
from gschedd.core.kernels.shares import ROOM_FRAGMENTED, fits_looking_at_all_nb, fits_nb, lowest_gpus_nb, take_nb

FIRST_FIT: Final = 0
BEST_FIT: Final = 1
FGD: Final = 2
OURS: Final = 3

NEVER: Final = 1 << 62  # cost where it does not fit

# Rows of the placements' grid, a column an arrival.
ARRIVAL_KIND: Final = 0  # its demand
ARRIVAL_NODE: Final = 1  # -1 = rejected
ARRIVAL_GPUS: Final = 2  # mask
ARRIVAL_CHANGED: Final = 3  # a log apart: nodes in the order in which they changed


@kernel
def fill_nb(
    policy: int,
    rooms: Grid,
    demands: Grid,
    prices: Int64s,
    types: Grid,
    steps: Int64s,
    costs: Grid,
    seen: Int64s,
    arrivals: Grid,
    first: int,
    end: int,
) -> int:
    """Place arrivals first to end, in that order, up to the first that fits nowhere.

    costs: (demands, n) as they were when the log of changes was `seen[d]` long; -1 = all to be priced. `seen` has one
    number more than there are demands, the length of the log.
    Returns the arrival that fits nowhere, so that the caller can check it, or `end`.
    """
    for i in range(first, end):
        d = arrivals[ARRIVAL_KIND, i]
        _price_changed_nb(policy, rooms, demands, prices, types, steps, costs, seen, arrivals, d)
        row = costs[d]
        best, least = 0, row[0]
        for n in range(1, row.size):
            if row[n] < least:
                best, least = n, row[n]
        if least == NEVER:
            arrivals[ARRIVAL_NODE, i] = -1
            return i
        _, mask = _cost_nb(policy, rooms, demands, prices, types, steps, best, d)
        take_nb(rooms, best, demands, d, mask, 1)
        if policy == FGD:
            rooms[best, ROOM_FRAGMENTED] = fragmented_nb(types, rooms, best)
        arrivals[ARRIVAL_NODE, i], arrivals[ARRIVAL_GPUS, i] = best, mask
        arrivals[ARRIVAL_CHANGED, seen[-1]] = best
        seen[-1] += 1
    return end


@kernel
def fits_somewhere_nb(rooms: Grid, demands: Grid, d: int) -> bool:
    """Whether any node holds demand d now, by a look at each GPU: the check of a rejection."""
    found = False
    for n in range(rooms.shape[0]):
        found = found or fits_looking_at_all_nb(rooms, n, demands, d)
    return found


@kernel
def _price_changed_nb(
    policy: int,
    rooms: Grid,
    demands: Grid,
    prices: Int64s,
    types: Grid,
    steps: Int64s,
    costs: Grid,
    seen: Int64s,
    arrivals: Grid,
    d: int,
) -> None:
    """Bring the costs of demand d up to date."""
    size, changes = rooms.shape[0], seen[-1]
    everything = seen[d] < 0 or changes - seen[d] >= size
    first = 0 if everything else seen[d]
    for i in range(first, size if everything else changes):
        n = i if everything else arrivals[ARRIVAL_CHANGED, i]
        cost = NEVER
        if fits_nb(rooms, n, demands, d):
            cost, _ = _cost_nb(policy, rooms, demands, prices, types, steps, n, d)
        costs[d, n] = cost
    seen[d] = changes


@kernel
def _cost_nb(
    policy: int, rooms: Grid, demands: Grid, prices: Int64s, types: Grid, steps: Int64s, n: int, d: int
) -> tuple[int, int]:
    """(cost, mask of GPUs) of demand d on node n, where it fits, by the policy's measure."""
    if policy == OURS:
        return price_nb(prices, rooms, n, demands, d)
    if policy == FGD:
        return fgd_nb(types, steps, rooms, n, demands, d)
    if policy == BEST_FIT:
        return best_fit_nb(rooms, n, demands, d)
    return 0, lowest_gpus_nb(rooms, n, demands, d)
