"""The checked commit of a plan, and what the planner is told between passes."""

from __future__ import annotations

from msgspec.structs import replace

from gsched.protocol.messages import CancelJobs, CreateReservation, DeleteReservation, HoldJobs
from gsched.values.ids import Instant, JobId, NodeName
from gsched.values.states import JobState
from gschedd.core.inputs import JobGone, QueueInput
from gschedd.events import Planned
from tests.builders.controller import EPOCH, UID, Controller


def test_after_a_start_is_dropped_those_that_would_pass_a_job_wait() -> None:
    c = Controller(nodes=4)
    jobs = [c.submit(gpus_per_node=8) for _ in range(4)]
    plan = c.decided()
    nodes = {start.job: start.shares[0].node for start in plan.starts}
    c.leave(nodes[jobs[1]])
    starts = tuple(replace(start, in_order=start.job == jobs[2]) for start in plan.starts)
    outcome = c.feed(Planned(replace(plan, starts=starts)))
    assert [c.job(job).state is JobState.PENDING for job in jobs] == [False, True, False, True]
    assert outcome.plan


def test_a_start_for_another_request_than_the_jobs_is_dropped() -> None:
    c = Controller(nodes=2)
    job = c.submit(gpus_per_node=4)
    plan = c.decided()
    state = c.machine.state
    state.jobs[job] = replace(c.job(job), request=replace(c.job(job).request, nodes_min=2, nodes_max=2))
    assert c.feed(Planned(plan)).plan
    assert c.job(job).state is JobState.PENDING


def test_the_start_of_a_job_that_was_cancelled_stops_no_other() -> None:
    c = Controller(nodes=2)
    first, second = c.submit(gpus_per_node=8), c.submit(gpus_per_node=8)
    plan = c.decided()
    c.ask(CancelJobs("cancel", (first,)))
    assert not c.feed(Planned(plan)).plan
    assert c.job(second).state is not JobState.PENDING


def test_the_planner_is_told_each_change_once() -> None:
    c = Controller(nodes=1)
    job = c.submit(gpus_per_node=8)
    (told,) = [change for change in c.machine.pass_log(c.now).changes if isinstance(change, QueueInput)]
    assert told.job == job
    assert c.machine.pass_log(c.now).changes == ()
    c.ask(HoldJobs("hold", (job,)))
    assert c.machine.pass_log(c.now).changes == (JobGone(job),)


def test_jobs_of_a_reservation_come_and_go_with_it() -> None:
    c = Controller(nodes=2)
    end = Instant(EPOCH + 3_600_000)
    c.ask(CreateReservation("r1", "mine", nodes=(NodeName("n1"),), end=end, users=("user",), uids=(UID,)), uid=0)
    job = c.submit(gpus_per_node=8, reservation="mine")
    c.machine.pass_log(c.now)
    c.ask(DeleteReservation("r2", "mine"), uid=0)
    assert JobGone(JobId(job)) in c.machine.pass_log(c.now).changes
