"""Where a MIG instance goes: which GPU of a node, and at which slices.

A GPU's occupied slices are a mask (`core/mig.py`); one that is held whole, or in fractions, is wholly occupied. An
instance in use stays where it is: it is neither moved nor cut anew, and a new one is made of free slices only. So
what decides is what a placement takes away: nothing helps later but good places now.
"""

from __future__ import annotations

from typing import Final

from gschedd.core.kernels.arrays import Grid
from gschedd.core.kernels.bits import popcount_nb
from gschedd.core.kernels.compiled import kernel

# A row of `places`: one profile on one model of GPU.
PLACE_MODEL: Final = 0  # row of `keeps`
PLACE_COUNT: Final = 1
PLACE_MASK: Final = 2  # from here on: the masks, the lowest start first
PLACE_COLUMNS: Final = PLACE_MASK + 7

NOT_CUT: Final = -1  # instead of a row of `places`: this GPU has no such profile
NO_SLICES: Final = 0


@kernel
def place_slices_nb(keeps: Grid, places: Grid, row: int, occupied: int) -> int:
    """Mask of the placement that keeps the largest profiles possible; the lowest of equals; 0 if none is free.

    keeps: (models, 512) what still fits beside each mask. places: (rows, PLACE_COLUMNS).
    """
    best, best_key = NO_SLICES, -1
    model = places[row, PLACE_MODEL]
    for i in range(PLACE_MASK, PLACE_MASK + places[row, PLACE_COUNT]):
        mask = places[row, i]
        if mask & occupied == 0 and keeps[model, mask | occupied] > best_key:
            best, best_key = mask, keeps[model, mask | occupied]
    return best


@kernel
def slices_key_nb(keeps: Grid, model: int, occupied: int, mask: int) -> int:
    """Sort key of a placement, smaller is better; bits from the top.

    1 the GPU is whole yet (so whole ones stay whole), 32 what would not fit any more (the largest profile counting
    most), 8 slices that are free now (the fullest first).
    """
    whole = 1 if occupied == 0 else 0
    loss = keeps[model, occupied] - keeps[model, occupied | mask]
    return int((whole << 32 | loss) << 8 | (9 - popcount_nb(occupied)))


@kernel
def find_slices_nb(keeps: Grid, places: Grid, rows: Grid, node: int, occupied: Grid, gpus: int) -> int:
    """The GPU of a node for an instance, and its slices: `gpu << 9 | mask`; -1 if it fits on none.

    rows: (nodes, gpus) row of `places` of the profile on each GPU, or NOT_CUT. occupied: (nodes, gpus). gpus: mask of
    those that may be used. The best by `slices_key_nb`; of equals the lowest.
    """
    best, best_key = -1, 0
    for g in range(rows.shape[1]):
        row = rows[node, g]
        if row == NOT_CUT or not gpus >> g & 1:
            continue
        taken = occupied[node, g]
        mask = place_slices_nb(keeps, places, row, taken)
        if mask == NO_SLICES:
            continue
        key = slices_key_nb(keeps, places[row, PLACE_MODEL], taken, mask)
        if best < 0 or key < best_key:
            best, best_key = g << 9 | mask, key
    return best


@kernel
def count_slices_nb(places: Grid, rows: Grid, node: int, occupied: Grid, gpus: int) -> int:
    """How many instances of one profile fit on a node."""
    found = 0
    for g in range(rows.shape[1]):
        row = rows[node, g]
        if row == NOT_CUT or not gpus >> g & 1:
            continue
        taken = occupied[node, g]
        for i in range(PLACE_MASK, PLACE_MASK + places[row, PLACE_COUNT]):
            if places[row, i] & taken == 0:
                taken |= places[row, i]
                found += 1
    return found
