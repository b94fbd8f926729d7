"""The order in which a pass walks the queue: rank of the QOS, then priority, then job id. Integers only.

The priority is Slurm's multifactor one (age, fair-share, QOS, partition, size, nice:
https://slurm.schedmd.com/priority_multifactor.html), or the expected GPU time, aged. priority_twin.py says it plainly.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from gsched.values.ids import Instant
from gschedd.core.inputs import Policy, Weights
from gschedd.core.kernels.arrays import Int64s, QueueArrays
from gschedd.core.kernels.order import (
    AGE_BITS,
    DIGITS,
    UNIT,
    fold_nb,
    priorities_nb,
    response_ratios_nb,
    sorted_rows_nb,
)
from gschedd.core.snapshot import Snapshot


def ordered(snapshot: Snapshot, policy: Policy, now: Instant) -> Snapshot:
    """The snapshot with its queue in the order of the pass."""
    order = queue_order(snapshot, policy, now)
    return replace(snapshot, queue=QueueArrays(*(_in_order(column, order) for column in snapshot.queue)))


def _in_order(column: Int64s, order: Int64s) -> Int64s:
    """Where all are alike there is nothing to move: reading in any order is what an ordered queue costs most."""
    return column if not column.size or column.min() == column.max() else column.take(order)


def queue_order(snapshot: Snapshot, policy: Policy, now: Instant) -> Int64s:
    """Rows of the queue as the board gave it, the first to be walked first."""
    queue = snapshot.queue
    size = queue.job.size
    if size < 2:
        return np.arange(size, dtype=np.int64)
    priority = priorities(snapshot, policy, now)
    tops = queue.job.min(), priority.max(), queue.rank.max()
    spans = queue.job.max() - tops[0], tops[1] - priority.min(), tops[2] - queue.rank.min()
    bits = np.array([int(span).bit_length() for span in (*spans, size)], dtype=np.int64)
    if int(bits.sum()) > 62:
        keys = np.stack([queue.job - tops[0], tops[1] - priority, tops[2] - queue.rank])
        room = np.empty((4, size), dtype=np.int64)
        return sorted_rows_nb(keys, bits, room[:2], room[2:], np.empty(DIGITS, dtype=np.int64))
    folded = np.empty(size, dtype=np.int64)
    fold_nb(queue, priority, np.array(tops, dtype=np.int64), bits, folded)
    folded.sort()  # all different, so any sort gives the same
    return folded & ((1 << int(bits[3])) - 1)


def priorities(snapshot: Snapshot, policy: Policy, now: Instant) -> Int64s:
    """For each row of the queue as the board gave it, in units of `UNIT`; a higher one comes first."""
    queue, factors, weights = snapshot.queue, snapshot.factors, policy.weights
    gpus = snapshot.classes.least * np.maximum(snapshot.classes.gpus, 1)
    age_max = max(weights.age_max_s, 1) * 1000
    if policy.shortest_first:
        settle = np.array([policy.settle_gpu_s, policy.no_limit_s], dtype=np.int64)
        return response_ratios_nb(factors.eligible, queue.cls, queue.limit, gpus, settle, now)
    shares = {account.name: account.fair_share for account in snapshot.accounts}
    return priorities_nb(
        factors,
        queue.cls,
        queue.account,
        _sizes(gpus, snapshot, weights),
        np.array([shares.get(name, 0) for name in snapshot.account_names], dtype=np.int64),
        np.array(
            [weights.age * (UNIT << AGE_BITS) // age_max, weights.fair_share, weights.qos, weights.partition, age_max],
            dtype=np.int64,
        ),
        now,
    )


def _sizes(gpus: Int64s, snapshot: Snapshot, weights: Weights) -> Int64s:
    """What the size of each class comes to: its share of the cluster's GPUs, or of its nodes if it has none."""
    all_gpus = int(np.bitwise_count(snapshot.nodes.gpus).sum())
    size = np.minimum(gpus * UNIT // max(all_gpus or len(snapshot.names), 1), UNIT)
    return weights.size * (UNIT - size if weights.size_small_first else size)
