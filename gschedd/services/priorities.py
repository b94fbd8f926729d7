"""What the places in the queue are made of, job by job, for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gsched.values.explanation import Priority
from gsched.values.ids import JobId
from gschedd.core import priority_twin
from gschedd.core.inputs import PassInput, QueueInput, Weights
from gschedd.core.priority_twin import UNIT, JobFactors


def in_order(given: PassInput, users: Mapping[JobId, str], jobs: Sequence[JobId]) -> list[Priority]:
    """The jobs that may start, in the order of the pass; with `jobs` only those of them."""
    wanted = set(jobs)
    return [
        _priority(job, factors, users.get(job.job, ""))
        for job, factors in priority_twin.in_order(given)
        if not wanted or job.job in wanted
    ]


def weights_by_name(weights: Weights) -> dict[str, int]:
    return {
        "age": weights.age,
        "fair_share": weights.fair_share,
        "qos": weights.qos,
        "partition": weights.partition,
        "size": weights.size,
    }


def _priority(job: QueueInput, factors: JobFactors, user: str) -> Priority:
    added = {name: value // UNIT for name, value in factors.added.items()}
    return Priority(
        job=job.job,
        user=user,
        partition=job.request.partition,
        account=job.account,
        rank=job.rank,
        age=factors.age,
        fair_share=factors.fair_share,
        qos=factors.qos,
        partition_factor=factors.partition,
        size=factors.size,
        nice=job.factors.nice,
        weighted_age=added["age"],
        weighted_fair_share=added["fair_share"],
        weighted_qos=added["qos"],
        weighted_partition=added["partition"],
        weighted_size=added["size"],
        total=factors.total // UNIT,
    )
