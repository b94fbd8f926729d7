"""Values as the store gets them: each builder defaults what its test does not care about."""

from __future__ import annotations

from msgspec.structs import replace

from gsched.values.ids import BatchNo, Instant, JobId, NodeName, RunNo, StepId, Term
from gsched.values.job import Job, JobPayload, JobSpec, NodeNeed, Request
from gsched.values.node import Inventory, Node
from gsched.values.run import NodeRun, NodeShare, Run, Step
from gsched.values.states import JobState
from gschedd.lifecycle.changes import Batch, Change, PutAnswer, PutJob, PutPayload

NOW = Instant(1_800_000_000_000)
REQUEST = Request(
    partition="main", nodes_min=1, nodes_max=1, ntasks=1, tasks_per_node=1, cpus_per_task=1, need=NodeNeed(cpus=1)
)


def job(
    id: int,
    *,
    name: str = "train",
    user: str = "ann",
    state: JobState = JobState.PENDING,
    submitted: int = NOW,
    ended: int | None = None,
    run: int = 0,
) -> Job:
    return Job(
        id=JobId(id),
        uid=1000,
        gid=1000,
        user=user,
        spec=JobSpec(name=name),
        request=REQUEST,
        state=state,
        submitted=Instant(submitted),
        eligible=Instant(submitted),
        ended=None if ended is None else Instant(ended),
        run=RunNo(run),
    )


def run(id: int, no: int = 1, *, closed: bool = False) -> Run:
    share = NodeShare(NodeName("n1"), cpus=1, mem_mib=1024, gpus=0b11)
    return Run(job=JobId(id), no=RunNo(no), parts=(NodeRun(share),), created=NOW, closed=closed)


def step(id: int, no: int = 1, number: int = 0, *, ended: int | None = None) -> Step:
    ended_at = None if ended is None else Instant(ended)
    return Step(
        job=JobId(id),
        run=RunNo(no),
        id=StepId(number),
        name="grun",
        ntasks=1,
        nodes=(NodeName("n1"),),
        started=NOW,
        ended=ended_at,
    )


def node(name: str) -> Node:
    return Node(name=NodeName(name), inventory=Inventory(cpus=8, memory_mib=4096), first_seen=NOW)


def submission(id: int, environment: dict[str, str] | None = None) -> tuple[Change, ...]:
    """What one gsub writes."""
    payload = JobPayload(b"#!/bin/sh\ntrue\n", (), environment or {"HOME": "/home/ann"})
    return (
        PutJob(job(id)),
        PutPayload(JobId(id), payload),
        PutAnswer(1000, f"request-{id}", b"submitted", NOW),
    )


def batch(number: int, *changes: Change, term: int = 1, next_job_id: int = 100) -> Batch:
    return Batch(BatchNo(number), Term(term), JobId(next_job_id), changes)


def with_number(one: Batch, number: int) -> Batch:
    return replace(one, number=BatchNo(number))
