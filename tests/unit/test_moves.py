"""History of planned starts: made, moved, gone; nothing while they stay."""

from __future__ import annotations

from gsched.values.ids import Instant, JobId, NodeName
from gschedd.build import decide
from gschedd.core.inputs import Plan, PlannedStart
from gschedd.events import Planned
from gschedd.lifecycle.changes import Note
from tests.builders.controller import EPOCH, Controller


def test_a_dropped_start_is_noted_once_in_a_row() -> None:
    c = Controller(nodes=1)
    job = c.submit(gpus=8)
    late = decide(c.machine.pass_input(c.now))
    c.leave("n1")
    notes = [[change.kind for change in c.feed(Planned(late)).changes if isinstance(change, Note)] for _ in range(2)]
    assert notes == [["plan.dropped"], []]
    c.feed(Planned(Plan()))
    assert [note.job for note in c.feed(Planned(late)).changes if isinstance(note, Note)] == [job]


def told(c: Controller, *starts: tuple[int, int]) -> list[str]:
    """Give a plan with these planned starts (job, seconds from the epoch); the lines of history it made."""
    planned = tuple(PlannedStart(JobId(j), Instant(EPOCH + 1000 * s), (NodeName("n1"),)) for j, s in starts)
    changes = c.feed(Planned(Plan(planned=planned))).changes
    return [change.kind for change in changes if isinstance(change, Note)]


def test_a_planned_start_is_noted_when_it_is_made_moved_and_gone() -> None:
    c = Controller(nodes=1)
    for _ in range(2):
        c.submit(gpus=8)
    assert told(c, (1, 600), (2, 900)) == ["plan.planned", "plan.planned"]
    assert told(c, (1, 600), (2, 900)) == []
    assert told(c, (1, 660), (2, 700)) == ["plan.moved", "plan.moved"]
    assert told(c, (1, 661)) == ["plan.unplanned"]


def test_small_moves_are_noted_when_they_add_up() -> None:
    c = Controller(nodes=1)
    c.submit(gpus=8)
    kinds = [told(c, (1, 600 + 20 * step)) for step in range(7)]
    assert kinds == [["plan.planned"], [], [], ["plan.moved"], [], [], ["plan.moved"]]
