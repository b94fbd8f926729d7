"""The table of transitions, walked."""

from __future__ import annotations

import pytest

from gsched.values.states import FINAL, JobState
from gschedd.lifecycle.table import TRANSITIONS, Happening, IllegalTransition, next_state


def _after(state: JobState) -> set[JobState]:
    onward = {after for (before, _), after in TRANSITIONS.items() if before is state}
    return onward | FINAL if state is JobState.COMPLETING else onward


def test_every_state_can_be_reached_from_pending() -> None:
    reached, new = {JobState.PENDING}, {JobState.PENDING}
    while new:
        new = {after for state in new for after in _after(state)} - reached
        reached |= new
    assert reached == set(JobState)


def test_every_state_that_is_not_final_has_a_way_to_a_final_one() -> None:
    for state in set(JobState) - FINAL:
        seen, new = {state}, {state}
        while new:
            new = {after for one in new for after in _after(one)} - seen
            seen |= new
        assert seen & FINAL, state


def test_nothing_happens_to_a_job_that_has_ended() -> None:
    for state in FINAL:
        for happening in Happening:
            with pytest.raises(IllegalTransition, match=state.value):
                next_state(state, happening, JobState.COMPLETED)


def test_the_final_state_is_the_one_decided_on_entering_completing() -> None:
    for decided in FINAL:
        assert next_state(JobState.COMPLETING, Happening.CLEANED, decided) is decided
    with pytest.raises(IllegalTransition):
        next_state(JobState.COMPLETING, Happening.CLEANED, None)
