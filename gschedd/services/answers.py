"""Answers to inquiries: from values to a reply, in a thread of the daemon's."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from gsched.errors import TooLarge
from gsched.protocol.frames import MAX_FRAME
from gsched.protocol.messages import ExpectedStart, Explained, JobTried, PriorityPage, SnapshotTaken, UserReply
from gsched.values.job import Request
from gsched.values.states import Reason
from gschedd.core.explain import explain
from gschedd.core.feasible import why_impossible
from gschedd.core.foresee import Decide, foresee, sure_to_come
from gschedd.core.inputs import PassInput
from gschedd.core.pass_file import pack
from gschedd.events import ExpectedStarts, Inquiry, Priorities, WholePass, WhyWaiting
from gschedd.services.priorities import in_order, weights_by_name

_ROOM: Final = 1024  # bytes of a frame beside its content


def answer(inquiry: Inquiry, decide: Decide) -> UserReply:
    """Work out the reply. decide: one pass over whole values."""
    match inquiry.question:
        case WhyWaiting() as question:
            return _explained(inquiry, question, decide)
        case Priorities() as question:
            return _priorities(inquiry, question)
        case ExpectedStarts() as question:
            return _tried(inquiry, question, decide)
        case WholePass():
            return _taken(inquiry, decide)


def _explained(inquiry: Inquiry, question: WhyWaiting, decide: Decide) -> Explained:
    given, job = inquiry.given, question.job
    plan = decide(given)
    found = explain(given, plan, job)
    order = in_order(given, {job.job: question.user}, ())
    place = next((at for at, row in enumerate(order, 1) if row.job == job.job), 0)
    found = replace(found, place=place, waiting=len(order))
    if question.reason:
        found = replace(found, reason=question.reason, detail=question.detail)
    elif found.planned is None and found.reason in (Reason.PRIORITY, Reason.RESOURCES):
        ahead = foresee(sure_to_come(given, plan), job, decide)
        found = replace(found, estimate=ahead.start, planned_nodes=ahead.nodes)
    priority = order[place - 1] if place else None
    return Explained(found, priority, inquiry.unconfirmed)


def _priorities(inquiry: Inquiry, question: Priorities) -> PriorityPage:
    rows = in_order(inquiry.given, question.users, question.jobs)
    there = {row.job for row in rows}
    return PriorityPage(
        rows=tuple(rows[: question.limit]),
        left_out=max(0, len(rows) - question.limit),
        weights=weights_by_name(inquiry.given.policy.weights),
        missing=tuple(job for job in question.jobs if job not in there),
        unconfirmed=inquiry.unconfirmed,
    )


def _tried(inquiry: Inquiry, question: ExpectedStarts, decide: Decide) -> JobTried:
    sure = sure_to_come(inquiry.given, decide(inquiry.given))
    starts = tuple(_expected(sure, question, what, request, decide) for what, request in question.asks)
    return JobTried(question.job.job, starts, inquiry.given.now, question.note, inquiry.unconfirmed)


def _taken(inquiry: Inquiry, decide: Decide) -> SnapshotTaken:
    given = inquiry.given
    content = pack(given, decide(given))
    if len(content) > MAX_FRAME - _ROOM:
        raise TooLarge(f"the pass has {len(content)} bytes: at most {MAX_FRAME - _ROOM} fit in one answer")
    return SnapshotTaken(content, len(given.queue), len(given.holds), len(given.nodes), inquiry.unconfirmed)


def _expected(sure: PassInput, question: ExpectedStarts, what: str, request: Request, decide: Decide) -> ExpectedStart:
    impossible = why_impossible(request, sure.nodes) or ""
    ahead = foresee(sure, replace(question.job, request=request), decide) if not impossible else None
    nodes = len(ahead.nodes) if ahead is not None and ahead.nodes else request.nodes_min
    return ExpectedStart(
        what=what,
        start=ahead.start if ahead is not None else None,
        nodes=ahead.nodes if ahead is not None else (),
        node_count=nodes,
        gpus=nodes * request.need.gpus,
        cpus=nodes * request.need.cpus,
        gpu_model=request.gpu_model,
        partition=request.partition,
        time_limit_s=request.time_limit_s,
        reason=ahead.reason.value if ahead is not None and ahead.reason is not Reason.NONE else "",
        detail=ahead.detail if ahead is not None else "",
        impossible=impossible,
    )
