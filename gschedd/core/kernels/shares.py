"""Nodes whose GPUs may be cut: what is free of each GPU, whether a demand fits, and taking it.

A demand is one pod, or one member of a gang: cores, memory and either nothing of a GPU, a part of one, or whole ones.
Quantities are thousandths of a core, MiB, thousandths of a GPU and MiB of a GPU's own memory.

The state is one Grid with a row a node (`rooms[n, ROOM_...]`): what a decision reads of a node lies side by side, and a
kernel that is handed one array does not spend its time counting references to many.
"""

from __future__ import annotations

from typing import Final

from gschedd.core.kernels.arrays import Grid
from gschedd.core.kernels.compiled import kernel

WHOLE: Final = 1000  # thousandths of one GPU

# Columns of `rooms`.
ROOM_CORES: Final = 0  # free, thousandths
ROOM_MEMORY: Final = 1  # free, MiB
ROOM_GPUS: Final = 2  # how many it has
ROOM_MODEL: Final = 3  # number of their model, 0 to 61; -1 = no GPU
ROOM_IDLE: Final = 4  # free thousandths of all its GPUs together
ROOM_LARGEST: Final = 5  # most thousandths free on one GPU
ROOM_WHOLE: Final = 6  # wholly free GPUs
ROOM_FRAGMENTED: Final = 7  # kept by FGD
ROOM_FREE: Final = 8  # from here on: free thousandths of GPU 0, its free memory, those of GPU 1...

# Rows of the demands' grid.
DEMAND_CORES: Final = 0
DEMAND_MEMORY: Final = 1
DEMAND_GPUS: Final = 2  # how many; a part of a GPU counts as 1
DEMAND_MILLI: Final = 3  # of each of them; WHOLE = all of it, and only then may there be several
DEMAND_MIB: Final = 4  # of each one's own memory
DEMAND_MODELS: Final = 5  # mask of the models it may use; -1 = any


@kernel
def fits_nb(rooms: Grid, n: int, demands: Grid, d: int) -> bool:
    """Whether demand d fits on node n now; most answers need no look at the GPUs."""
    if rooms[n, ROOM_CORES] < demands[DEMAND_CORES, d] or rooms[n, ROOM_MEMORY] < demands[DEMAND_MEMORY, d]:
        return False
    need = demands[DEMAND_GPUS, d]
    if need == 0:
        return True
    milli = demands[DEMAND_MILLI, d]
    if rooms[n, ROOM_LARGEST] < milli or (milli == WHOLE and rooms[n, ROOM_WHOLE] < need):
        return False
    models = demands[DEMAND_MODELS, d]
    if models >= 0 and not models >> rooms[n, ROOM_MODEL] & 1:
        return False
    return bool(demands[DEMAND_MIB, d] == 0 or _gpus_that_fit_nb(rooms, n, demands, d) >= need)


@kernel
def fits_looking_at_all_nb(rooms: Grid, n: int, demands: Grid, d: int) -> bool:
    """The same, from what is free of each GPU alone."""
    if rooms[n, ROOM_CORES] < demands[DEMAND_CORES, d] or rooms[n, ROOM_MEMORY] < demands[DEMAND_MEMORY, d]:
        return False
    need, models = demands[DEMAND_GPUS, d], demands[DEMAND_MODELS, d]
    if need > 0 and models >= 0 and (rooms[n, ROOM_MODEL] < 0 or not models >> rooms[n, ROOM_MODEL] & 1):
        return False
    return bool(_gpus_that_fit_nb(rooms, n, demands, d) >= need)


@kernel
def gpu_fits_nb(rooms: Grid, n: int, g: int, demands: Grid, d: int) -> bool:
    """Whether GPU g of node n has what demand d asks of each of its GPUs."""
    at = ROOM_FREE + 2 * g
    return bool(rooms[n, at] >= demands[DEMAND_MILLI, d] and rooms[n, at + 1] >= demands[DEMAND_MIB, d])


@kernel
def _gpus_that_fit_nb(rooms: Grid, n: int, demands: Grid, d: int) -> int:
    found = 0
    for g in range(rooms[n, ROOM_GPUS]):
        found += 1 if gpu_fits_nb(rooms, n, g, demands, d) else 0
    return found


@kernel
def lowest_gpus_nb(rooms: Grid, n: int, demands: Grid, d: int) -> int:
    """Mask of the lowest GPUs of node n that hold demand d, which fits there."""
    mask = 0
    need = demands[DEMAND_GPUS, d]
    for g in range(rooms[n, ROOM_GPUS]):
        if need > 0 and gpu_fits_nb(rooms, n, g, demands, d):
            mask |= 1 << g
            need -= 1
    return mask


@kernel
def tightest_gpu_nb(rooms: Grid, n: int, demands: Grid, d: int) -> int:
    """Mask of the GPU with the least left that holds demand d, a part of one; the lowest of equals."""
    best, best_left = 0, 0
    for g in range(rooms[n, ROOM_GPUS]):
        left = rooms[n, ROOM_FREE + 2 * g]
        if gpu_fits_nb(rooms, n, g, demands, d) and (best == 0 or left < best_left):
            best, best_left = 1 << g, left
    return best


@kernel
def take_nb(rooms: Grid, n: int, demands: Grid, d: int, mask: int, sign: int) -> None:
    """Take demand d from node n and from its GPUs in `mask` (sign 1), or give it back (sign -1)."""
    rooms[n, ROOM_CORES] -= sign * demands[DEMAND_CORES, d]
    rooms[n, ROOM_MEMORY] -= sign * demands[DEMAND_MEMORY, d]
    if mask == 0:
        return
    largest = whole = idle = 0
    for g in range(rooms[n, ROOM_GPUS]):
        at = ROOM_FREE + 2 * g
        if mask >> g & 1:
            rooms[n, at] -= sign * demands[DEMAND_MILLI, d]
            rooms[n, at + 1] -= sign * demands[DEMAND_MIB, d]
        left = rooms[n, at]
        idle += left
        largest = max(largest, left)
        whole += 1 if left == WHOLE else 0
    rooms[n, ROOM_IDLE], rooms[n, ROOM_LARGEST], rooms[n, ROOM_WHOLE] = idle, largest, whole
