"""When a job would start that has no planned start: one more pass over the jobs that are sure to come before it.

Of the jobs before it only those count that start now or have a planned start: the others may come first too, so this
is an estimate, and it is early rather than late.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from gsched.values.ids import Instant, NodeName
from gsched.values.states import Reason
from gschedd.core.inputs import PassInput, Plan, QueueInput

Decide = Callable[[PassInput], Plan]


class Foreseen(Struct, frozen=True):
    """What is expected of one job."""

    start: Instant | None  # None = not known
    nodes: tuple[NodeName, ...]
    reason: Reason  # NONE = it starts at once
    detail: str


def sure_to_come(given: PassInput, plan: Plan) -> PassInput:
    """The pass's input with only the jobs in its queue that start or have a planned start."""
    sure = {start.job for start in plan.starts} | {planned.job for planned in plan.planned}
    policy = replace(given.policy, planned_starts=len(plan.planned) + 1)
    return replace(given, queue=tuple(job for job in given.queue if job.job in sure), policy=policy)


def foresee(sure: PassInput, job: QueueInput, decide: Decide) -> Foreseen:
    """Add the job at the queue's end and see what a pass makes of it. sure: of `sure_to_come`."""
    queue = (*(each for each in sure.queue if each.job != job.job), job)
    plan = decide(replace(sure, queue=queue))
    for start in plan.starts:
        if start.job == job.job:
            return Foreseen(sure.now, tuple(share.node for share in start.shares), Reason.NONE, "")
    wait = plan.waits.of(job.job)
    reason, detail = (wait.reason, wait.detail) if wait is not None else (Reason.NONE, "")
    for planned in plan.planned:
        if planned.job == job.job:
            return Foreseen(planned.at, planned.nodes, reason, detail)
    return Foreseen(None, (), reason, detail)
