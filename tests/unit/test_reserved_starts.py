"""Reservations from the command to the start: who waits for them, who starts inside, and what ginfo shows meanwhile."""

from __future__ import annotations

from typing import Any

from gsched.protocol.messages import CreateReservation, ExplainJob, ListNodes
from gsched.values.ids import Instant, JobId, NodeName
from gsched.values.node import NodeState
from gsched.values.states import JobState
from tests.builders.controller import EPOCH, UID, Controller

HOUR = 3_600_000


def reserve(c: Controller, name: str, node: str, start_s: int, end_s: int, **who: Any) -> None:
    """One node, in seconds from the epoch, by root."""
    c.ask(
        CreateReservation(
            request_id=f"reserve {name}",
            name=name,
            nodes=(NodeName(node),),
            start=Instant(EPOCH + 1000 * start_s),
            end=Instant(EPOCH + 1000 * end_s),
            **who,
        ),
        uid=0,
    )


def state_of(c: Controller, node: str) -> NodeState:
    return next(row.state for row in c.ask(ListNodes()).rows if row.node.name == node)


def test_a_job_that_would_run_into_a_reservation_waits_and_a_short_one_does_not() -> None:
    c = Controller(nodes=1)
    reserve(c, "class", "n1", 600, 3600, users=("user1000",), uids=(UID,))
    long = c.submit(gpus=1, time_limit_s=601)
    short = c.submit(gpus=1, time_limit_s=599)
    c.plan()
    assert (c.job(long).state, c.job(short).state) == (JobState.PENDING, JobState.CONFIGURING)
    why = c.inquire(ExplainJob(JobId(long))).explanation
    assert [(each.nodes, each.text) for each in why.excluded] == [(1, "reserved")]
    assert why.planned == EPOCH + 3_600_000


def test_its_users_job_starts_in_it_and_only_once_it_has_begun() -> None:
    c = Controller(nodes=2)
    reserve(c, "class", "n1", 10, 3600, users=("user1000",), uids=(UID,))
    inside = c.submit(gpus=1, time_limit_s=60, reservation="class")
    outside = c.submit(gpus_per_node=8, nodes_min=2, time_limit_s=60)
    c.plan()
    assert c.job(inside).state is JobState.PENDING
    assert c.job(outside).state is JobState.PENDING
    c.wait(10)
    assert state_of(c, "n1") is NodeState.RESERVED
    c.plan()
    assert (c.job(inside).state, c.job(inside).nodes) == (JobState.CONFIGURING, ("n1",))
    assert c.job(outside).state is JobState.PENDING


def test_maintenance_keeps_everybody_out() -> None:
    c = Controller(nodes=2)
    reserve(c, "repair", "n1", 0, 3600, maint=True, users=("user1000",), uids=(UID,))
    jobs = [c.submit(gpus_per_node=8, time_limit_s=60) for _ in range(2)]
    c.plan()
    assert [c.job(job).nodes for job in jobs] == [("n2",), ()]
    assert state_of(c, "n1") is NodeState.MAINT
