"""What every store promises, asked of the one in a database and of the one in memory alike."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gsched.values.ids import Instant, JobId
from gsched.values.job import JobPayload
from gsched.values.states import JobState
from gschedd.lifecycle.changes import Loaded, Note, PutAnswer, PutJob, PutNode, PutPayload, PutRun, PutStep
from gschedd.store.journal import Deposed, Journal, OutOfOrder
from gschedd.store.memory import MemoryJournal
from gschedd.store.sql import SqlStore
from tests.store_values import NOW, batch, job, node, run, step, submission


@pytest.fixture(params=["sqlite", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Journal]:
    if request.param == "memory":
        yield MemoryJournal()
        return
    sql = SqlStore("", tmp_path)
    yield sql
    sql.close()


def opened(store: Journal, now: int = NOW) -> Loaded:
    return store.open("here", Instant(now), min_job_age_s=300, answers_kept_s=600)


def test_a_new_store_starts_with_term_1_and_job_id_1(store: Journal) -> None:
    loaded = opened(store)
    assert (loaded.term, loaded.batch, loaded.next_job_id) == (1, 0, 1)
    assert loaded.jobs == loaded.runs == loaded.nodes == ()


def test_what_was_written_is_loaded_again(store: Journal) -> None:
    opened(store)
    payload = JobPayload(b"#!/bin/sh\n\xff\x00", ("a b", "\udcff"), {"NAME": "caf\udce9", "EMPTY": ""})
    answer = PutAnswer(1000, "r1", b"\x00\xff", NOW)
    changes = (
        PutJob(job(7, name="crazy|näme\udcff\n")),
        PutPayload(JobId(7), payload),
        PutRun(run(7)),
        PutStep(step(7)),
        PutNode(node("n1")),
        answer,
        Note(NOW, "job.submitted", JobId(7), text="bytes \udcff"),
    )
    store.write(batch(1, *changes, next_job_id=8))
    loaded = opened(store)
    assert loaded == Loaded(
        term=loaded.term,
        batch=batch(1).number,
        next_job_id=JobId(8),
        jobs=(job(7, name="crazy|näme\udcff\n"),),
        runs=(run(7),),
        steps=(step(7),),
        payloads=((JobId(7), payload),),
        nodes=(node("n1"),),
        answers=(answer,),
    )


def test_each_opening_takes_a_higher_term(store: Journal) -> None:
    assert [opened(store).term for _ in range(3)] == [1, 2, 3]


def test_a_batch_of_an_earlier_term_is_refused_and_changes_nothing(store: Journal) -> None:
    opened(store)
    opened(store)
    with pytest.raises(Deposed, match=r"term 2, this process has 1"):
        store.write(batch(1, PutJob(job(1)), term=1))
    assert store.last_batch() == 0
    assert opened(store).jobs == ()


def test_the_last_batch_sent_again_changes_nothing(store: Journal) -> None:
    opened(store)
    store.write(batch(1, *submission(1), Note(NOW, "job.submitted")))
    store.write(batch(1, *submission(1), Note(NOW, "job.submitted")))
    assert store.last_batch() == 1
    store.write(batch(2, *submission(2)))
    assert [j.id for j in opened(store).jobs] == [1, 2]


@pytest.mark.parametrize("number", [1, 2, 5])
def test_a_batch_out_of_order_is_refused(store: Journal, number: int) -> None:
    opened(store)
    for n in (1, 2, 3):
        store.write(batch(n))
    with pytest.raises(OutOfOrder):
        store.write(batch(number, PutJob(job(9))))
    assert store.last_batch() == 3
    assert opened(store).jobs == ()


def test_job_ids_never_go_back(store: Journal) -> None:
    opened(store)
    store.write(batch(1, next_job_id=50))
    with pytest.raises(OutOfOrder, match="back from 50 to 49"):
        store.write(batch(2, next_job_id=49))
    assert opened(store).next_job_id == 50


def test_of_two_values_under_one_key_the_last_counts(store: Journal) -> None:
    opened(store)
    states = (JobState.PENDING, JobState.CONFIGURING, JobState.RUNNING)
    store.write(batch(1, *(PutJob(job(1, state=s)) for s in states)))
    assert opened(store).jobs == (job(1, state=JobState.RUNNING),)
    store.write(batch(2, PutJob(job(1, state=JobState.COMPLETING)), term=2))
    assert opened(store).jobs == (job(1, state=JobState.COMPLETING),)


def test_a_finished_job_is_loaded_for_min_job_age_and_without_its_script(store: Journal) -> None:
    opened(store)
    ended = NOW + 1000
    done = job(1, state=JobState.COMPLETED, ended=ended)
    store.write(batch(1, *submission(1), PutJob(done), *submission(2)))
    at_the_edge = opened(store, ended + 300_000)
    assert at_the_edge.jobs == (done, job(2))
    assert [id for id, _ in at_the_edge.payloads] == [2]
    assert opened(store, ended + 300_001).jobs == (job(2),)


def test_a_completing_job_is_unfinished_even_when_its_end_is_old(store: Journal) -> None:
    opened(store)
    completing = job(1, state=JobState.COMPLETING, ended=NOW)
    store.write(batch(1, PutJob(completing)))
    assert opened(store, NOW + 10**9).jobs == (completing,)


def test_closed_runs_and_finished_steps_are_not_loaded(store: Journal) -> None:
    opened(store)
    runs = (run(1, 1, closed=True), run(1, 2), run(2, 1))
    steps = (step(1, 1, 0), step(1, 2, 0, ended=NOW), step(1, 2, 1), step(2, 1, 0))
    store.write(batch(1, *map(PutRun, runs), *map(PutStep, steps)))
    loaded = opened(store)
    assert loaded.runs == (run(1, 2), run(2, 1))
    assert loaded.steps == (step(1, 2, 1), step(2, 1, 0))


def test_answers_are_loaded_for_as_long_as_they_are_kept(store: Journal) -> None:
    opened(store)
    store.write(batch(1, PutAnswer(1, "old", b"", NOW), PutAnswer(1, "new", b"", Instant(NOW + 1))))
    assert [a.request_id for a in opened(store, NOW + 600_001).answers] == ["new"]


def test_request_ids_are_told_apart_whatever_they_contain(store: Journal) -> None:
    opened(store)
    ids = ["a", "a\0", "a\\0", "a\\", "\udc80", "\\udc80", "é", ""]
    store.write(batch(1, *(PutAnswer(1000, id, id.encode("utf-8", "surrogateescape"), NOW) for id in ids)))
    assert {a.request_id for a in opened(store).answers} == set(ids)
