"""Nothing leaves before its cause is durable."""

from __future__ import annotations

from gsched.values.ids import BatchNo, Instant, JobId, Term
from gschedd.events import Outcome
from gschedd.gate import Gate
from gschedd.lifecycle.changes import Note


def _changing(kind: str) -> Outcome:
    return Outcome(changes=[Note(Instant(0), kind)])


def test_an_outcome_with_changes_waits_for_its_batch() -> None:
    gate = Gate(Term(1), BatchNo(7))
    outcome = _changing("a")
    assert gate.take(outcome) == []
    batch = gate.next_batch(JobId(5))
    assert batch is not None
    assert (batch.number, batch.next_job_id, len(batch.changes)) == (8, 5, 1)
    assert gate.written(BatchNo(8)) == [outcome]
    assert gate.settled


def test_an_answer_waits_for_what_was_applied_when_it_was_computed() -> None:
    gate = Gate(Term(1), BatchNo(0))
    change, answer, later = _changing("a"), Outcome(), _changing("b")
    gate.take(change)
    assert gate.take(answer) == []
    assert gate.next_batch(JobId(1)) is not None
    gate.take(later)
    assert gate.written(BatchNo(1)) == [change, answer]
    assert gate.waiting == 1


def test_an_answer_leaves_at_once_when_all_is_durable() -> None:
    gate = Gate(Term(1), BatchNo(0))
    answer = Outcome()
    assert gate.take(answer) == [answer]


def test_an_answer_waits_while_a_batch_is_under_way() -> None:
    gate = Gate(Term(1), BatchNo(0))
    gate.take(_changing("a"))
    gate.next_batch(JobId(1))
    answer = Outcome()
    assert gate.take(answer) == []
    assert gate.written(BatchNo(1))[-1] is answer


def test_what_waits_while_the_writer_works_goes_into_one_batch() -> None:
    gate = Gate(Term(1), BatchNo(0))
    gate.take(_changing("a"))
    gate.next_batch(JobId(1))
    for _ in range(50):
        gate.take(_changing("b"))
    batch = gate.next_batch(JobId(1))
    assert batch is not None
    assert len(batch.changes) == 50
    assert gate.next_batch(JobId(1)) is None
