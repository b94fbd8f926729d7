"""What a placement costs in GPU capacity that the job mix can no longer use: ours, FGD's and best fit's measure.

Ours is a state's cost after the placement less before, at prices made from the job mix (`core/mix.py`):
- lines: idle GPU beyond what the free cores, or the free memory, of the node can serve;
- value: what the leftover of a cut GPU is worth to the mix, less what was there;
- tight: a little for each idle GPU of the node, so that fuller nodes go first and empty ones stay whole;
- scarce: GPUs of a model that others must have.
FGD: Weng et al., "Beware of Fragmentation", USENIX ATC 2023, with the whole-number scores of its published simulator
(hkust-adsl/kubernetes-scheduler-simulator): floor(100 sigmoid(fragmentation taken away)), ties to the lowest node.
"""

from __future__ import annotations

from typing import Final

from gschedd.core.kernels.arrays import Grid, Int64s
from gschedd.core.kernels.compiled import kernel
from gschedd.core.kernels.shares import (
    DEMAND_CORES,
    DEMAND_GPUS,
    DEMAND_MEMORY,
    DEMAND_MILLI,
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
    gpu_fits_nb,
    lowest_gpus_nb,
    take_nb,
    tightest_gpu_nb,
)

# The prices are one array, in this order. Costs are in units of 1e-12 of a GPU.
PRICE_TIGHT: Final = 0  # for each thousandth that is idle on the node before
PRICE_LINES: Final = 1  # how many lines there are
PRICE_LINE: Final = 2  # three numbers each
LINE_CORES: Final = 0  # thousandths of a core that a whole GPU should keep; 0 = the line is of memory
LINE_MEMORY: Final = 1  # MiB that a whole GPU should keep
LINE_WEIGHT: Final = 2  # for each (thousandth of a GPU, thousandth of a core) or (thousandth of a GPU, MiB) short
MOST_LINES: Final = 6
PRICE_SCARCE: Final = PRICE_LINE + 3 * MOST_LINES  # for each thousandth of a GPU of model 0, of model 1...
MOST_MODELS: Final = 62
PRICE_VALUE: Final = PRICE_SCARCE + MOST_MODELS  # worth of 0 thousandths left on a GPU, of 1... of WHOLE
PRICE_END: Final = PRICE_VALUE + WHOLE + 1

CORE: Final = 1000  # thousandths of one
ADDED_BITS: Final = 21
ADDED_ZERO: Final = 1 << ADDED_BITS - 1
ADDED_UNIT: Final = 1_000_000_000  # of costs in a thousandth of a GPU

# Rows of the mix as FGD sees it: its types of pods.
TYPE_CORES: Final = 0
TYPE_GPUS: Final = 1
TYPE_MILLI: Final = 2
TYPE_MODELS: Final = 3
TYPE_COUNT: Final = 4

BEST_FIT_CORES: Final = 128_000  # of the largest node and
BEST_FIT_GPUS: Final = 8_000  # its GPUs: the constants of the published best fit


@kernel
def strain_nb(prices: Int64s, idle: int, cores: int, memory: int) -> int:
    """Price of the idle GPU (thousandths) that so many free cores and so much free memory cannot serve."""
    cost = 0
    for i in range(prices[PRICE_LINES]):
        at = PRICE_LINE + 3 * i
        if prices[at + LINE_CORES] > 0:
            short = idle * prices[at + LINE_CORES] - cores * WHOLE
        else:
            short = idle * prices[at + LINE_MEMORY] - memory * WHOLE
        if short > 0:
            cost += prices[at + LINE_WEIGHT] * short
    return int(cost)


@kernel
def added_nb(
    prices: Int64s, model: int, idle: int, cores: int, memory: int, milli: int, cores_taken: int, memory_taken: int
) -> int:
    """Fragmentation added by taking `milli` GPU, cores and memory from a node with so much of each free.

    The worth of what is left on a cut GPU is not in it (`least_loss_nb`). model: -1 = no GPU.
    """
    after = strain_nb(prices, idle - milli, cores - cores_taken, memory - memory_taken)
    cost = after - strain_nb(prices, idle, cores, memory) + prices[PRICE_TIGHT] * idle
    if model >= 0:
        cost += prices[PRICE_SCARCE + model] * milli
    return int(cost)


@kernel
def member_key_nb(
    prices: Int64s, gpus: int, cores: int, memory: int, gpus_taken: int, cores_taken: int, memory_taken: int
) -> int:
    """`added_nb` for a member that takes whole GPUs and whole cores, as a part of a sort key: ADDED_BITS bits.

    Thousandths of a GPU, ADDED_ZERO = nothing, clamped. Model scarcity is left out: a node may have several models.
    """
    added = added_nb(
        prices,
        -1,
        gpus * WHOLE,
        cores * CORE,
        memory,
        gpus_taken * WHOLE,
        cores_taken * CORE,
        memory_taken,
    )
    return int(min(max(added // ADDED_UNIT + ADDED_ZERO, 0), 2 * ADDED_ZERO - 1))


@kernel
def least_loss_nb(prices: Int64s, rooms: Grid, n: int, demands: Grid, d: int) -> tuple[int, int]:
    """(worth lost, mask) of the GPU of node n on which a part of one loses least worth; 0, 0 if none holds it.

    Of equals the one with the least left, then the lowest.
    """
    milli = demands[DEMAND_MILLI, d]
    best, best_left, mask = 0, 0, 0
    for g in range(rooms[n, ROOM_GPUS]):
        if not gpu_fits_nb(rooms, n, g, demands, d):
            continue
        left = rooms[n, ROOM_FREE + 2 * g]
        lost = prices[PRICE_VALUE + left] - prices[PRICE_VALUE + left - milli]
        if mask == 0 or lost < best or (lost == best and left < best_left):
            best, best_left, mask = lost, left, 1 << g
    return best, mask


@kernel
def price_nb(prices: Int64s, rooms: Grid, n: int, demands: Grid, d: int) -> tuple[int, int]:
    """(cost, mask of GPUs) of demand d on node n, where it fits; whole GPUs are taken from the lowest."""
    milli = demands[DEMAND_MILLI, d]
    cost = added_nb(
        prices,
        rooms[n, ROOM_MODEL],
        rooms[n, ROOM_IDLE],
        rooms[n, ROOM_CORES],
        rooms[n, ROOM_MEMORY],
        demands[DEMAND_GPUS, d] * milli,
        demands[DEMAND_CORES, d],
        demands[DEMAND_MEMORY, d],
    )
    if milli == 0 or milli == WHOLE:
        return cost, lowest_gpus_nb(rooms, n, demands, d)
    lost, mask = least_loss_nb(prices, rooms, n, demands, d)
    return cost + lost, mask


@kernel
def fragmented_nb(types: Grid, rooms: Grid, n: int) -> int:
    """FGD's fragmentation of node n, thousandths of a GPU times the counts of the mix.

    All idle GPU for a type of pod that does not fit or wants none; for one that fits, the GPUs with too little left.
    """
    idle = rooms[n, ROOM_IDLE]
    if idle == 0:
        return 0
    amount = 0
    for t in range(types.shape[1]):
        amount += types[TYPE_COUNT, t] * _useless_nb(types, rooms, n, t, idle)
    return int(amount)


@kernel
def _useless_nb(types: Grid, rooms: Grid, n: int, t: int, idle: int) -> int:
    """How much of the idle GPU of node n is of no use to type t."""
    need, models, milli = types[TYPE_GPUS, t], types[TYPE_MODELS, t], types[TYPE_MILLI, t]
    if need == 0 or rooms[n, ROOM_CORES] < types[TYPE_CORES, t] or rooms[n, ROOM_LARGEST] < milli:
        return idle
    if milli == WHOLE and rooms[n, ROOM_WHOLE] < need:
        return idle
    if models >= 0 and not models >> rooms[n, ROOM_MODEL] & 1:
        return idle
    if milli == WHOLE:
        return int(idle - WHOLE * rooms[n, ROOM_WHOLE])
    small = 0
    for g in range(rooms[n, ROOM_GPUS]):
        left = rooms[n, ROOM_FREE + 2 * g]
        small += left if left < milli else 0
    return int(small)


@kernel
def fgd_nb(types: Grid, steps: Int64s, rooms: Grid, n: int, demands: Grid, d: int) -> tuple[int, int]:
    """(100 - FGD's score, mask of GPUs) of demand d on node n, where it fits; its fragmentation now is in `rooms`.

    A part of a GPU is tried on each GPU; of equal scores the lowest. steps: step k - 1 is the least fragmentation taken
    away (times the counts of the mix) that scores k.
    """
    milli = demands[DEMAND_MILLI, d]
    if milli == 0 or milli == WHOLE:
        mask = lowest_gpus_nb(rooms, n, demands, d)
        return _fgd_cost_nb(types, steps, rooms, n, demands, d, mask), mask
    best, best_mask, last = 0, 0, -1
    for g in range(rooms[n, ROOM_GPUS]):
        left = rooms[n, ROOM_FREE + 2 * g]
        if left == last or not gpu_fits_nb(rooms, n, g, demands, d):  # one with as much left scores the same
            continue
        last = left
        cost = _fgd_cost_nb(types, steps, rooms, n, demands, d, 1 << g)
        if best_mask == 0 or cost < best:
            best, best_mask = cost, 1 << g
    return best, best_mask


@kernel
def _fgd_cost_nb(types: Grid, steps: Int64s, rooms: Grid, n: int, demands: Grid, d: int, mask: int) -> int:
    take_nb(rooms, n, demands, d, mask, 1)
    gained = rooms[n, ROOM_FRAGMENTED] - fragmented_nb(types, rooms, n)
    take_nb(rooms, n, demands, d, mask, -1)
    low, high = 0, steps.shape[0]  # how many steps are reached
    while low < high:
        middle = (low + high) >> 1
        if steps[middle] <= gained:
            low = middle + 1
        else:
            high = middle
    return 100 - low


@kernel
def best_fit_nb(rooms: Grid, n: int, demands: Grid, d: int) -> tuple[int, int]:
    """(cost, mask of GPUs) as the published best fit has it: what stays free, in whole percents of the largest node."""
    milli = demands[DEMAND_MILLI, d]
    cores = rooms[n, ROOM_CORES] - demands[DEMAND_CORES, d]
    idle = rooms[n, ROOM_IDLE] - demands[DEMAND_GPUS, d] * milli
    left = 100 * (cores * BEST_FIT_GPUS + idle * BEST_FIT_CORES)
    cost = -(-left // (2 * BEST_FIT_CORES * BEST_FIT_GPUS))
    if milli == 0 or milli == WHOLE:
        return cost, lowest_gpus_nb(rooms, n, demands, d)
    return cost, tightest_gpu_nb(rooms, n, demands, d)
