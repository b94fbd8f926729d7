"""Twin of order.py: the priority of one job, factor by factor, and the order of a queue, from plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from gsched.values.ids import Instant
from gschedd.core.inputs import NodeInput, PassInput, Policy, QueueInput

UNIT: Final = 100_000  # of a priority: what one of a weight comes to where its factor is at its most
AGE_BITS: Final = 24
_RATIO_BITS: Final = 16
_MOST_WAITED: Final = 1 << 45
_MOST_LIMIT_S: Final = 1 << 30
_MOST_GPU_S: Final = 1 << 42


class JobFactors(Struct, frozen=True):
    """Each factor in thousandths of its most; what each adds, and the sum, in parts of a weight's one (`UNIT`)."""

    age: int
    fair_share: int
    qos: int
    partition: int
    size: int
    added: Mapping[str, int]  # by the names above, and "nice", which is taken off
    total: int  # a higher one comes first


def in_order(given: PassInput) -> list[tuple[QueueInput, JobFactors]]:
    """The queue in the order of the pass."""
    capacity = capacity_of(given.nodes)
    shares = {account.name: account.fair_share for account in given.accounts}
    rows = [
        (job, factors_of(job, given.policy, given.now, capacity, shares.get(job.account, 0))) for job in given.queue
    ]
    return sorted(rows, key=lambda row: (-row[0].rank, -row[1].total, row[0].job))


def factors_of(job: QueueInput, policy: Policy, now: Instant, capacity: int, fair_share: int) -> JobFactors:
    """capacity: of `capacity_of`. fair_share: of the job's account, in thousandths."""
    weights, factors = policy.weights, job.factors
    age_max = max(weights.age_max_s, 1) * 1000
    waited = min(max(now - factors.eligible, 0), age_max)
    size = min(gpus_of(job) * UNIT // max(capacity, 1), UNIT)
    size = UNIT - size if weights.size_small_first else size
    added = {
        "age": waited * (weights.age * (UNIT << AGE_BITS) // age_max) >> AGE_BITS,
        "fair_share": weights.fair_share * fair_share * (UNIT // 1000),
        "qos": weights.qos * factors.qos * (UNIT // 1000),
        "partition": weights.partition * factors.partition * (UNIT // 1000),
        "size": weights.size * size,
        "nice": -factors.nice * UNIT,
    }
    return JobFactors(
        age=waited * 1000 // age_max,
        fair_share=fair_share,
        qos=factors.qos,
        partition=factors.partition,
        size=size * 1000 // UNIT,
        added=added,
        total=_response_ratio(job, policy, now) if policy.shortest_first else sum(added.values()),
    )


def gpus_of(job: QueueInput) -> int:
    """GPUs it asks for in all; a job without any counts as one a node."""
    request = job.request
    return max(request.nodes_min, len(set(request.nodelist))) * max(request.need.gpus, 1)


def capacity_of(nodes: Sequence[NodeInput]) -> int:
    """GPUs of the cluster; of one without any its nodes."""
    return sum(len(node.inventory.gpus) for node in nodes) or len(nodes)


def _response_ratio(job: QueueInput, policy: Policy, now: Instant) -> int:
    seconds = min(job.request.time_limit_s or policy.no_limit_s, _MOST_LIMIT_S)
    expected = max(min(gpus_of(job) * seconds, _MOST_GPU_S) + policy.settle_gpu_s, 1)
    waited = min(max(now - job.factors.eligible, 0), _MOST_WAITED) + 1000
    return (waited << _RATIO_BITS) // expected
