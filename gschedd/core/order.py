"""The order in which a pass walks the queue: rank of the QOS, then priority, then job id. Integers only.

The priority is Slurm's multifactor one (age, fair-share, QOS, partition, size, nice); what is measured in wall time is
given by the caller, so the same queue at the same instant is always in the same order.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec.structs import replace

from gsched.values.ids import Instant
from gschedd.core.inputs import Policy
from gschedd.core.kernels.arrays import Int64s, QueueArrays
from gschedd.core.snapshot import Snapshot

UNIT: Final = 1_000_000  # of a priority: a weight counts so many times its factor


def ordered(snapshot: Snapshot, policy: Policy, now: Instant) -> Snapshot:
    """The snapshot with its queue in the order of the pass."""
    order = queue_order(snapshot, policy, now)
    return replace(snapshot, queue=QueueArrays(*(column[order] for column in snapshot.queue)))


def queue_order(snapshot: Snapshot, policy: Policy, now: Instant) -> Int64s:
    """Rows of the queue, the first to be walked first."""
    queue = snapshot.queue
    return np.lexsort((queue.job, -priorities(snapshot, policy, now), -queue.rank)).astype(np.int64, copy=False)


def priorities(snapshot: Snapshot, policy: Policy, now: Instant) -> Int64s:
    """For each row of the queue as the board gave it; a higher one comes first."""
    weights = policy.weights
    age_max = weights.age_max_s * 1000
    age = np.clip(now - snapshot.factors.eligible, 0, age_max) * (1_000 * UNIT) // max(age_max, 1)
    return weights.age * age // 1_000
