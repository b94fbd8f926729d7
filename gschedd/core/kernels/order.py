"""The order of the queue: priorities, and a sort by several keys. Column by column; no floats."""

from __future__ import annotations

from typing import Final

from gschedd.core.kernels.arrays import SOMEDAY, FactorArrays, Grid, Int64s, QueueArrays
from gschedd.core.kernels.compiled import kernel, making

UNIT: Final = 100_000  # of a priority: what one of a weight comes to where its factor is at its most
_DIGIT_BITS: Final = 8  # sorted at once
AGE_BITS: Final = 24  # a division for each job would cost as much as all the rest
RATIO_BITS: Final = 16  # below the point
MOST_WAITED: Final = 1 << 45  # milliseconds; shifted it stays an int64
MOST_LIMIT_S: Final = 1 << 30
MOST_GPU_S: Final = 1 << 42
DIGITS: Final = 1 << _DIGIT_BITS

# What the weights' array holds.
WEIGHT_AGE: Final = 0  # UNITs a millisecond, times 2 ** AGE_BITS
WEIGHT_FAIR_SHARE: Final = 1
WEIGHT_QOS: Final = 2
WEIGHT_PARTITION: Final = 3
WEIGHT_AGE_MAX: Final = 4  # milliseconds
WEIGHT_ROWS: Final = 5


@making
def priorities_nb(
    factors: FactorArrays, cls: Int64s, account: Int64s, size: Int64s, fair_share: Int64s, weights: Int64s, now: int
) -> Int64s:
    """Multifactor priority of each job, in units of `UNIT`; a higher one comes first.

    size: of each class, weighted. fair_share: of each account, in thousandths. weights: (WEIGHT_,).
    """
    out = factors.eligible.copy()
    age_max = weights[WEIGHT_AGE_MAX]
    for j in range(out.shape[0]):
        age = min(max(now - factors.eligible[j], 0), age_max)
        out[j] = (
            (age * weights[WEIGHT_AGE] >> AGE_BITS)
            + weights[WEIGHT_FAIR_SHARE] * fair_share[account[j]] * (UNIT // 1000)
            + weights[WEIGHT_QOS] * factors.qos[j] * (UNIT // 1000)
            + weights[WEIGHT_PARTITION] * factors.partition[j] * (UNIT // 1000)
            + size[cls[j]]
            - factors.nice[j] * UNIT
        )
    return out


@making
def response_ratios_nb(eligible: Int64s, cls: Int64s, limit: Int64s, gpus: Int64s, settle: Int64s, now: int) -> Int64s:
    """Time waited over GPU time expected, of each job; the highest comes first (Brinch Hansen, 1971, on GPU time).

    gpus: of each class, all its nodes together. settle: (GPU seconds added to each, seconds that a job without a limit
    is taken to last). Short jobs come first, and none waits for ever: each gains by waiting, a long one in proportion.
    """
    out = eligible.copy()
    for j in range(out.shape[0]):
        seconds = settle[1] if limit[j] >= SOMEDAY else limit[j] // 1000
        expected = max(min(gpus[cls[j]] * min(seconds, MOST_LIMIT_S), MOST_GPU_S) + settle[0], 1)
        waited = min(max(now - eligible[j], 0), MOST_WAITED) + 1000  # those of one instant differ by their size
        out[j] = (waited << RATIO_BITS) // expected
    return out


@kernel
def fold_nb(queue: QueueArrays, priority: Int64s, tops: Int64s, bits: Int64s, out: Int64s) -> None:
    """One number for each job, less for one that comes first; its row is in the lowest `bits[3]` bits.

    tops: the least job id, the most of the priorities and of the ranks. bits: of the distance of each from these, and
    of a row; 62 at most in all.
    """
    for j in range(out.shape[0]):
        folded = (tops[2] - queue.rank[j]) << bits[1] | (tops[1] - priority[j])
        out[j] = (folded << bits[0] | (queue.job[j] - tops[0])) << bits[3] | j


@making
def sorted_rows_nb(keys: Grid, bits: Int64s, rows: Grid, values: Grid, count: Int64s) -> Int64s:
    """Columns of keys in order, the last key counting most: a radix sort from the least digit up, so it is stable.

    keys: (keys, n), 0 or more and within `bits`. rows, values: (2, n) room; a row of `rows` is returned. count:
    (DIGITS,) room.
    """
    n = keys.shape[1]
    now = 0
    for j in range(n):
        rows[now, j] = j
    for key in range(keys.shape[0]):
        if bits[key] > 0:
            for i in range(n):
                values[now, i] = keys[key, rows[now, i]]
        for shift in range(0, bits[key], _DIGIT_BITS):
            _count_nb(values[now], shift, count)
            for i in range(n):
                digit = values[now, i] >> shift & (DIGITS - 1)
                at = count[digit]
                rows[1 - now, at], values[1 - now, at] = rows[now, i], values[now, i]
                count[digit] = at + 1
            now = 1 - now
    return rows[now, :]


@kernel
def _count_nb(values: Int64s, shift: int, count: Int64s) -> None:
    """Where the numbers of each digit begin."""
    count[:] = 0
    for i in range(values.shape[0]):
        count[values[i] >> shift & (DIGITS - 1)] += 1
    at = 0
    for digit in range(DIGITS):
        found = count[digit]
        count[digit] = at
        at += found
