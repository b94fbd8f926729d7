"""The job's lifecycle as one table: state and what happened -> the state that follows."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from gsched.errors import GschedError
from gsched.values.states import FINAL, JobState


class Happening(StrEnum):
    """What can happen to a job."""

    PLACED = "placed"  # nodes granted, a run made
    ALL_READY = "all ready"  # every node has prepared it (a run on one node: its script was started)
    LAUNCH_FAILED = "launch failed"  # nothing of the user's ran; not the job's fault
    AT_FAULT = "at fault"  # cannot be launched, and the job is to blame
    EXITED = "exited"  # the script ended, by itself or at its time limit
    CANCELLED = "cancelled"
    LOST = "lost"  # a node was lost and the job may run again
    LOST_FOR_GOOD = "lost for good"  # a node was lost and it may not
    CLEANED = "cleaned"  # every node has confirmed that nothing is left (or was drained for not doing so)


class IllegalTransition(GschedError):
    """The table lacks this pair: a bug of ours, never a user's mistake."""

    code = "internal.transition"

    def __init__(self, state: JobState, happening: Happening) -> None:
        super().__init__(f"{happening.value!r} cannot happen to a job that is {state.value}")


# fmt: off
TRANSITIONS: Final[Mapping[tuple[JobState, Happening], JobState]] = {
    (JobState.PENDING,     Happening.PLACED):         JobState.CONFIGURING,
    (JobState.PENDING,     Happening.CANCELLED):      JobState.CANCELLED,
    (JobState.CONFIGURING, Happening.ALL_READY):      JobState.RUNNING,
    (JobState.CONFIGURING, Happening.LAUNCH_FAILED):  JobState.PENDING,
    (JobState.CONFIGURING, Happening.AT_FAULT):       JobState.COMPLETING,
    (JobState.CONFIGURING, Happening.CANCELLED):      JobState.COMPLETING,
    (JobState.CONFIGURING, Happening.EXITED):         JobState.COMPLETING,  # began and ended between two reports
    (JobState.CONFIGURING, Happening.LOST):           JobState.PENDING,
    (JobState.CONFIGURING, Happening.LOST_FOR_GOOD):  JobState.COMPLETING,
    (JobState.RUNNING,     Happening.EXITED):         JobState.COMPLETING,  # the final state is decided here
    (JobState.RUNNING,     Happening.CANCELLED):      JobState.COMPLETING,
    (JobState.RUNNING,     Happening.LAUNCH_FAILED):  JobState.PENDING,     # ready everywhere, but the start failed
    (JobState.RUNNING,     Happening.AT_FAULT):       JobState.COMPLETING,
    (JobState.RUNNING,     Happening.LOST):           JobState.PENDING,     # barred until its end is certain
    (JobState.RUNNING,     Happening.LOST_FOR_GOOD):  JobState.COMPLETING,
}
# fmt: on


def next_state(state: JobState, happening: Happening, decided: JobState | None = None) -> JobState:
    """Give the state that follows; CLEANED leads to the final state `decided` on entry into COMPLETING.

    Raises IllegalTransition for a pair the table lacks.
    """
    if happening is Happening.CLEANED:
        if state is not JobState.COMPLETING or decided not in FINAL:
            raise IllegalTransition(state, happening)
        return decided
    try:
        return TRANSITIONS[state, happening]
    except KeyError:
        raise IllegalTransition(state, happening) from None
