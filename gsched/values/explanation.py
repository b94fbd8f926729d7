"""Why a job waits, constraint by constraint, and what its place in the queue is made of."""

from __future__ import annotations

from msgspec import Struct

from gsched.values.ids import Instant, JobId, NodeName


class Excluded(Struct, frozen=True):
    """Nodes that one filter took out of those that the filters before it had left."""

    filter: str  # stable, for programs: "partition", "gpu_model", "free_gpus", ...
    nodes: int
    text: str  # "wrong GPU model"


class Holder(Struct, frozen=True):
    """Who has what a constraint lacks."""

    what: str  # "job 12", "reservation maint"
    nodes: int  # on so many of the nodes that come into question
    until: Instant | None  # None = not known, or for ever


class Constraint(Struct, frozen=True):
    """One thing a job asks, by itself: what is needed, what there is, and when there would be enough."""

    name: str  # as `Excluded.filter`, or "level"
    needed: str
    best: str
    met: bool
    earliest: Instant | None  # None = not known, or never
    holders: tuple[Holder, ...] = ()  # a few: those that give back first


class Explanation(Struct, frozen=True, kw_only=True):
    """Why one job waits, as of one instant."""

    job: JobId
    at: Instant
    reason: str  # Slurm's word
    detail: str
    nodes_known: int
    nodes_needed: int
    nodes_fit: int  # could hold a part of it now
    excluded: tuple[Excluded, ...]
    constraints: tuple[Constraint, ...]
    planned: Instant | None = None  # when the scheduler expects to start it
    planned_nodes: tuple[NodeName, ...] = ()
    estimate: Instant | None = None  # without a planned start: when, if only jobs that have one come before
    place: int = 0  # in the order of the waiting jobs, from 1; 0 = not among those that may start
    waiting: int = 0


class Priority(Struct, frozen=True, kw_only=True):
    """What a waiting job's place is made of. Factors are in thousandths of the most each can be."""

    job: JobId
    user: str
    partition: str
    account: str
    rank: int  # of its QOS, compared before the priority
    age: int
    fair_share: int
    qos: int
    partition_factor: int
    size: int
    nice: int
    weighted_age: int
    weighted_fair_share: int
    weighted_qos: int
    weighted_partition: int
    weighted_size: int
    total: int  # what is compared; equal ones go by job id
