"""What the places in the queue are made of, job by job, for people; the pass computes the same in columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gsched.values.explanation import Priority
from gsched.values.ids import JobId
from gschedd.core.inputs import PassInput, QueueInput, Weights

_MOST = 1000  # of a factor, in thousandths


def in_order(given: PassInput, users: Mapping[JobId, str], jobs: Sequence[JobId]) -> list[Priority]:
    """The jobs that may start, in the order of the pass; with `jobs` only those of them."""
    size = max(1, _capacity(given))
    shares = {account.name: account.fair_share for account in given.accounts}
    wanted = set(jobs)
    rows = [
        _priority(given, job, size, shares.get(job.account, 0), users.get(job.job, ""))
        for job in given.queue
        if not wanted or job.job in wanted
    ]
    return sorted(rows, key=lambda row: (-row.rank, -row.total, row.job))


def weights_by_name(weights: Weights) -> dict[str, int]:
    return {
        "age": weights.age,
        "fair_share": weights.fair_share,
        "qos": weights.qos,
        "partition": weights.partition,
        "size": weights.size,
    }


def _capacity(given: PassInput) -> int:
    """GPUs of the cluster; of one without any its nodes."""
    return sum(len(node.inventory.gpus) for node in given.nodes) or len(given.nodes)


def _priority(given: PassInput, job: QueueInput, capacity: int, fair_share: int, user: str) -> Priority:
    weights, factors, request = given.policy.weights, job.factors, job.request
    waited = min(max(0, given.now - factors.eligible), weights.age_max_s * 1000)
    age = waited // max(1, weights.age_max_s)  # ms / s: thousandths
    asked = request.nodes_min * (request.need.gpus or 1)
    size = min(_MOST, asked * _MOST // capacity)
    if weights.size_small_first:
        size = _MOST - size
    parts = {
        "weighted_age": weights.age * waited // max(1, weights.age_max_s * 1000),
        "weighted_fair_share": weights.fair_share * fair_share // _MOST,
        "weighted_qos": weights.qos * factors.qos // _MOST,
        "weighted_partition": weights.partition * factors.partition // _MOST,
        "weighted_size": weights.size * size // _MOST,
    }
    return Priority(
        job=job.job,
        user=user,
        partition=request.partition,
        account=job.account,
        rank=job.rank,
        age=age,
        fair_share=fair_share,
        qos=factors.qos,
        partition_factor=factors.partition,
        size=size,
        nice=factors.nice,
        total=sum(parts.values()) - factors.nice,
        **parts,
    )
