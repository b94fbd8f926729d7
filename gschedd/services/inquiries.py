"""Questions that take computing: what is asked is found out here, on the loop's thread; `answers.py` does the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from gsched.clock import Now
from gsched.errors import Conflict, NotFound
from gsched.protocol.messages import ExplainJob, ListPriorities, TryJob
from gsched.values.states import JobState
from gschedd.core.inputs import PassInput
from gschedd.events import Call, ExpectedStarts, Inquiry, Priorities, WholePass, WhyWaiting
from gschedd.services.alternatives import alternatives
from gschedd.services.planning import may_start, node_inputs, queue_input, reason_of
from gschedd.services.rights import admin_only
from gschedd.services.submit import proposed
from gschedd.state import StateChange

PRIORITIES_MAX: Final = 10_000  # rows of one answer

Given = Callable[[Now], PassInput]


def why_waiting(change: StateChange, call: Call, request: ExplainJob, given: Given) -> Inquiry:
    """`gctl explain`."""
    state = change.state
    job = state.jobs.get(request.job)
    if job is None:
        raise NotFound(f"job {request.job}: not in the queue; `gacct -j {request.job}` looks further back")
    if job.state is not JobState.PENDING:
        raise Conflict(f"job {job.id} is {job.state.value}: only a PENDING job waits for something")
    reason, detail = ("", "")
    if not may_start(state, job):
        why, detail = reason_of(state, job)
        reason = why.value
    question = WhyWaiting(queue_input(state, job), job.user, reason, detail)
    return Inquiry(call.id, given(change.now), question)


def priorities(change: StateChange, call: Call, request: ListPriorities, given: Given) -> Inquiry:
    """`gctl show priority`."""
    state = change.state
    wanted = request.jobs or tuple(state.pending)
    users = {job: state.jobs[job].user for job in wanted if job in state.jobs}
    return Inquiry(call.id, given(change.now), Priorities(users, request.jobs, PRIORITIES_MAX))


def expected_starts(change: StateChange, call: Call, request: TryJob, given: Given) -> Inquiry:
    """`gsub --test-only`: what would be refused at submit is refused here; nothing is kept."""
    job = proposed(change, call, request.spec)
    asks = [("as asked", job.request)]
    if request.alternatives:
        asks += alternatives(job.request, node_inputs(change.state))
    if job.spec.hold:
        job = replace(job, spec=replace(job.spec, hold=False))  # when would it start, once released
    question = ExpectedStarts(queue_input(change.state, job), tuple(asks), job.request.spread_note)
    return Inquiry(call.id, given(change.now), question)


def whole_pass(change: StateChange, call: Call, given: Given) -> Inquiry:
    """`gctl snapshot`: it shows everybody's jobs, so it is for administrators."""
    admin_only(change.state, call)
    return Inquiry(call.id, given(change.now), WholePass())
