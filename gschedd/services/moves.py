"""What history keeps of plans: planned starts made, moved and gone, and starts that were dropped.

Not each pass: at most as many lines as there are planned starts, and none while they stay where they are. A start that
waits for a run past its expected end moves with every pass; such small moves are left out until they add up.
"""

from __future__ import annotations

from collections.abc import Mapping

from gsched.values.ids import JobId
from gschedd.core.inputs import PlannedStart
from gschedd.state import StateChange

_WORTH_MS = 60_000  # a move of less is no news


def note_moves(change: StateChange, planned: Mapping[JobId, PlannedStart]) -> None:
    """Compare the plan's planned starts with those that were noted last."""
    noted = change.state.noted_starts
    for job in [job for job in noted if job not in planned]:
        was = noted.pop(job)
        waits = change.state.jobs.get(job)
        if waits is not None and waits.state == "PENDING":
            change.note("plan.unplanned", job=job, text=f"no start is planned any more; it was {was.at}")
    for job, start in planned.items():
        before = noted.get(job)
        if before is None:
            change.note("plan.planned", job=job, text=f"to start at {start.at} on {','.join(start.nodes)}")
        elif abs(start.at - before.at) >= _WORTH_MS:
            way = "later" if start.at > before.at else "earlier"
            change.note("plan.moved", job=job, text=f"{way}: from {before.at} to {start.at} on {','.join(start.nodes)}")
        else:
            continue
        noted[job] = start


def note_drop(change: StateChange, job: JobId) -> None:
    """A start did not fit any more when its plan came: noted once, however many plans in a row that happens to."""
    if job not in change.state.noted_drops:
        change.state.noted_drops.add(job)
        change.note("plan.dropped", job=job, text="its start did not fit any more when the plan came")
