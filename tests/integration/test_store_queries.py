"""What gacct may ask of the store, and what the store forgets when its time has passed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from sqlalchemy import func, select

from gsched.protocol import frames
from gsched.protocol.messages import Accounting
from gsched.values.ids import Instant, JobId, NodeName
from gsched.values.states import JobState
from gschedd.lifecycle.changes import Note, PutAnswer, PutJob, PutPayload, PutRun, PutStep
from gschedd.store import schema
from gschedd.store.journal import Deposed
from gschedd.store.retention import Kept
from gschedd.store.sql import SqlStore
from tests.store_values import NOW, batch, job, run, step, submission

HOUR = 3_600_000
DAY = 24 * HOUR


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStore]:
    """Five jobs over three hours: 1 done long ago, 2 failed, 3 of ben's cancelled, 4 runs a second time, 5 waits."""
    made = SqlStore("", tmp_path)
    made.open("here", NOW, 300, 600)
    made.write(
        batch(
            1,
            PutJob(job(1, state=JobState.COMPLETED, submitted=NOW - 3 * HOUR, ended=NOW - 2 * HOUR, run=1)),
            PutJob(job(2, state=JobState.FAILED, submitted=NOW - 2 * HOUR, ended=NOW - HOUR, run=1)),
            PutJob(job(3, user="ben", state=JobState.CANCELLED, submitted=NOW - HOUR, ended=NOW)),
            PutJob(job(4, state=JobState.RUNNING, submitted=NOW - 3 * HOUR, run=2)),
            PutJob(job(5, submitted=NOW)),
            *(PutRun(run(id, no)) for id, no in ((1, 1), (2, 1), (4, 1), (4, 2))),
            *(PutStep(step(4, no, number)) for no in (1, 2) for number in (-1, 0)),
        )
    )
    yield made
    made.close()


def asked(store: SqlStore, request: Accounting) -> list[int]:
    return [row.job.id for row in store.accounting(request, NOW).rows]


@pytest.mark.parametrize(
    ("request_", "ids"),
    [
        (Accounting(), [1, 2, 3, 4, 5]),
        (Accounting(user="ben"), [3]),
        (Accounting(user="nobody\udc80"), []),
        (Accounting(states=(JobState.FAILED, JobState.PENDING)), [2, 5]),
        (Accounting(since=Instant(NOW - HOUR)), [2, 3, 4, 5]),
        (Accounting(until=Instant(NOW - HOUR)), [1, 2, 4]),
        (Accounting(since=Instant(NOW - HOUR), until=Instant(NOW - HOUR)), [2, 4]),
        (Accounting(since=Instant(NOW + DAY)), [4, 5]),
        (Accounting(jobs=(JobId(1), JobId(3), JobId(77)), since=Instant(NOW)), [1, 3]),
        (Accounting(jobs=(JobId(1), JobId(3)), user="ben"), [3]),
        (Accounting(jobs=(JobId(2**64 - 1), JobId(-1))), []),
        (Accounting(since=Instant(2**64 - 1), after=JobId(-(2**63))), [4, 5]),
        (Accounting(after=JobId(2**64 - 1)), []),
    ],
)
def test_jobs_are_chosen_by_id_user_state_and_time(store: SqlStore, request_: Accounting, ids: list[int]) -> None:
    assert asked(store, request_) == ids


def test_ids_by_the_thousand_may_be_asked_for(store: SqlStore) -> None:
    assert asked(store, Accounting(jobs=tuple(JobId(n) for n in range(3, 20_003)))) == [3, 4, 5]


def test_pages_follow_each_other_in_id_order(store: SqlStore) -> None:
    first = store.accounting(Accounting(limit=3), NOW)
    assert ([row.job.id for row in first.rows], first.more) == ([1, 2, 3], True)
    second = store.accounting(Accounting(limit=3, after=JobId(3)), NOW)
    assert ([row.job.id for row in second.rows], second.more) == ([4, 5], False)


def test_a_page_holds_at_most_1000_jobs_whatever_is_asked(store: SqlStore) -> None:
    store.write(batch(2, *(PutJob(job(n)) for n in range(6, 1500)), next_job_id=1500))
    page = store.accounting(Accounting(limit=10**6), NOW)
    assert (len(page.rows), page.more) == (1000, True)


def test_a_page_of_heavy_jobs_is_cut_to_what_fits_in_a_frame(store: SqlStore) -> None:
    names = tuple(NodeName(f"node{n:05}") for n in range(10_000))
    heavy = (replace(job(n), nodes=names) for n in range(6, 106))
    store.write(batch(2, *map(PutJob, heavy), next_job_id=106))
    ids: list[int] = []
    more = True
    while more:
        page = store.accounting(Accounting(after=JobId(ids[-1] if ids else 5)), NOW)
        assert len(frames.encode(frames.REPLY, 1, page)) < frames.MAX_FRAME
        ids += [row.job.id for row in page.rows]
        more = page.more
    assert ids == list(range(6, 106))


def test_a_job_comes_with_its_last_run_and_that_runs_steps(store: SqlStore) -> None:
    (row,) = store.accounting(Accounting(jobs=(JobId(4),)), NOW).rows
    assert row.runs == (run(4, 2),)
    assert row.steps == (step(4, 2, -1), step(4, 2, 0))


def test_earlier_runs_and_their_steps_are_there_when_asked_for(store: SqlStore) -> None:
    (row,) = store.accounting(Accounting(jobs=(JobId(4),), duplicates=True), NOW).rows
    assert row.runs == (run(4, 1), run(4, 2))
    assert [(s.run, s.id) for s in row.steps] == [(1, -1), (1, 0), (2, -1), (2, 0)]


def test_steps_may_be_left_out(store: SqlStore) -> None:
    (row,) = store.accounting(Accounting(jobs=(JobId(4),), steps=False), NOW).rows
    assert row.steps == ()


def test_a_reader_does_not_hold_up_the_writer(store: SqlStore) -> None:
    with store._reading.connect() as reader, reader.begin():
        before = reader.scalar(select(func.count()).select_from(schema.jobs))
        store.write(batch(2, PutJob(job(6))))
        assert reader.scalar(select(func.count()).select_from(schema.jobs)) == before
    assert asked(store, Accounting(after=JobId(5))) == [6]


# --- retention


def counts(store: SqlStore) -> dict[str, int]:
    with store._reading.connect() as reader:
        tables = (schema.jobs, schema.job_scripts, schema.answers, schema.events)
        return {t.name: reader.execute(select(func.count()).select_from(t)).scalar_one() for t in tables}


def test_what_is_past_its_time_goes_a_few_at_a_time_and_nothing_else(tmp_path: Path) -> None:
    store = SqlStore("", tmp_path)
    store.open("here", NOW, 300, 600)
    old, new = Instant(NOW - 8 * DAY), Instant(NOW - 6 * DAY)
    for number, at in enumerate((old, new), start=1):
        ids = [JobId(10 * number + n) for n in range(5)]
        changes = [PutJob(job(id, state=JobState.COMPLETED, ended=at)) for id in ids]
        payloads = [PutPayload(id, c.payload) for id in ids for c in submission(id) if isinstance(c, PutPayload)]
        answers = [PutAnswer(1, f"r{id}", b"", at) for id in ids]
        notes = [Note(at, "job.ended", id) for id in ids]
        store.write(batch(number, *changes, *payloads, *answers, *notes))
    store.write(batch(3, *submission(50)))  # unfinished: its script stays however old it is
    kept = Kept(events_s=7 * 86400, scripts_s=7 * 86400, answers_s=7 * 86400)
    gone = [store.purge(NOW, kept, limit=2) for _ in range(4)]
    assert gone == [6, 6, 3, 0]
    assert counts(store) == {"jobs": 11, "job_scripts": 6, "answers": 6, "events": 5}
    assert store.open("here", NOW, 300, 600).payloads[0][0] == 50
    store.close()


def test_a_deposed_controller_purges_nothing(store: SqlStore) -> None:
    store._lock.release()
    other = SqlStore("", store._file.parent)
    other.open("another", NOW, 300, 600)
    with pytest.raises(Deposed):
        store.purge(NOW, Kept())
    other.close()
