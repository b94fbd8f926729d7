"""Rows into values: what a controller starts from, and what gacct asks."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Final

from sqlalchemy import ColumnElement, Connection, exists, func, or_, select

from gsched.protocol.frames import MAX_FRAME, pack_body
from gsched.protocol.messages import Accounting, AcctJob, AcctPage
from gsched.values.ids import BatchNo, Instant, JobId, Term
from gsched.values.job import Job, JobPayload
from gsched.values.node import Node
from gsched.values.reservation import Reservation
from gsched.values.run import Run, Step
from gschedd.lifecycle.changes import Loaded, PutAnswer
from gschedd.store import schema
from gschedd.store.rows import key_text, value_of

PAGE_MAX: Final = 1000  # rows
PAGE_BYTES_MAX: Final = MAX_FRAME // 2  # a page of wide gangs with many steps is cut shorter: it has to fit in a frame
_IDS_MAX: Final = 500  # an older SQLite takes 999 parameters in a statement
_INT_MAX: Final = 2**63 - 1  # what a column holds; a request may carry more


def load(connection: Connection, term: Term, now: Instant, min_job_age_s: int, answers_kept_s: int) -> Loaded:
    """Read what memory keeps. See changes.Loaded for what that is.

    All of it stays, so the collector of unused cycles, which would look through it again and again, rests meanwhile:
    that is a third of the time that a controller with a long queue takes to start.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        return _load(connection, term, now - min_job_age_s * 1000, now - answers_kept_s * 1000)
    finally:
        if collecting:
            gc.enable()


def _load(connection: Connection, term: Term, jobs_since: int, answers_since: int) -> Loaded:
    jobs, scripts, answers = schema.jobs, schema.job_scripts, schema.answers
    batch, next_job_id = connection.execute(select(schema.meta.c.batch, schema.meta.c.next_job_id)).one()
    live = exists().where(schema.runs.c.job == jobs.c.id, schema.runs.c.closed == 0)  # ended, not clean everywhere
    recent = or_(jobs.c.finished.is_(None), jobs.c.finished >= jobs_since, live)
    scripts_wanted = (
        select(scripts.c.job, scripts.c.body)
        .join_from(jobs, scripts, scripts.c.job == jobs.c.id)
        .where(jobs.c.finished.is_(None))
        .order_by(scripts.c.job)
    )
    kept = answers.c.at >= answers_since
    return Loaded(
        term=term,
        batch=BatchNo(batch),
        next_job_id=JobId(next_job_id),
        jobs=tuple(
            value_of(body, Job, f"job {id}")
            for id, body in connection.execute(select(jobs.c.id, jobs.c.body).where(recent).order_by(jobs.c.id))
        ),
        runs=_runs(connection, schema.runs.c.closed == 0),
        steps=tuple(step for step in _steps(connection, _of_live_runs()) if step.ended is None),
        payloads=tuple(
            (JobId(job), value_of(body, JobPayload, f"script of job {job}"))
            for job, body in connection.execute(scripts_wanted)
        ),
        nodes=tuple(
            value_of(body, Node, f"node {name}")
            for name, body in connection.execute(select(schema.nodes).order_by(schema.nodes.c.name))
        ),
        reservations=tuple(
            value_of(body, Reservation, f"reservation {name}")
            for name, body in connection.execute(
                select(schema.reservations.c.name, schema.reservations.c.body)
                .where(schema.reservations.c.closed == 0)
                .order_by(schema.reservations.c.name)
            )
        ),
        answers=tuple(
            value_of(body, PutAnswer, "answers")
            for (body,) in connection.execute(select(answers.c.body).where(kept).order_by(answers.c.at))
        ),
    )


def accounting(connection: Connection, request: Accounting, now: Instant) -> AcctPage:
    """Answer one page of gacct: jobs in id order, with their runs and steps."""
    limit = max(1, min(request.limit, PAGE_MAX))
    found = _jobs(connection, request, limit + 1)
    page = found[:limit]
    runs: dict[JobId, list[Run]] = {job.id: [] for job in page}
    steps: dict[JobId, list[Step]] = {job.id: [] for job in page}
    for ids in _chunks([job.id for job in page]):
        for run in _runs(connection, schema.runs.c.job.in_(ids)):
            runs[run.job].append(run)
        for step in _steps(connection, schema.steps.c.job.in_(ids)) if request.steps else ():
            steps[step.job].append(step)
    rows: list[AcctJob] = []
    size = 0
    for job in page:
        shown = tuple(runs[job.id] if request.duplicates else runs[job.id][-1:])
        numbers = {run.no for run in shown}
        row = AcctJob(job, shown, tuple(step for step in steps[job.id] if step.run in numbers))
        size += len(pack_body(row))
        if rows and size > PAGE_BYTES_MAX:
            break
        rows.append(row)
    return AcctPage(tuple(rows), len(found) > len(rows), now)


def _jobs(connection: Connection, request: Accounting, limit: int) -> list[Job]:
    """The first `limit` jobs that the request asks for."""
    jobs = schema.jobs
    query = select(jobs.c.id, jobs.c.body).where(*_asked(connection, request)).order_by(jobs.c.id)
    if not request.jobs:
        found = connection.execute(query.limit(limit)).all()
    else:
        found = []
        for ids in _chunks(sorted({id for id in request.jobs if request.after < id <= _INT_MAX})):
            if len(found) < limit:
                found += connection.execute(query.where(jobs.c.id.in_(ids))).all()
    return [value_of(body, Job, f"job {id}") for id, body in found[:limit]]


def _chunks(ids: list[JobId]) -> Iterator[list[JobId]]:
    """Cut a list of ids into pieces that fit into one statement."""
    for start in range(0, len(ids), _IDS_MAX):
        yield ids[start : start + _IDS_MAX]


def _asked(connection: Connection, request: Accounting) -> list[ColumnElement[bool]]:
    """Turn the request's filters into conditions on `jobs`."""
    jobs = schema.jobs
    asked = [jobs.c.id > _fit(request.after)]
    if request.user:
        asked.append(jobs.c.username == key_text(request.user))
    if request.states:
        asked.append(jobs.c.state.in_(sorted({state.value for state in request.states})))
    if request.jobs:
        return asked
    if request.until:
        asked.append(jobs.c.submitted < _fit(request.until))
    if request.since:
        since = _fit(request.since)
        alive = or_(jobs.c.finished.is_(None), jobs.c.finished >= since)
        asked.append(alive)
        # The index on `finished` gives the lowest id at once; then the table is read from there in id order.
        lowest = [
            connection.scalar(select(func.min(jobs.c.id)).where(condition))
            for condition in (jobs.c.finished.is_(None), jobs.c.finished >= since)
        ]
        asked.append(jobs.c.id >= min((id for id in lowest if id is not None), default=0))
    return asked


def _of_live_runs() -> ColumnElement[bool]:
    """Steps whose run is not closed."""
    runs, steps = schema.runs, schema.steps
    return exists().where(runs.c.job == steps.c.job, runs.c.no == steps.c.run, runs.c.closed == 0)


def _fit(number: int) -> int:
    return max(-_INT_MAX, min(number, _INT_MAX))


def _runs(connection: Connection, condition: ColumnElement[bool]) -> tuple[Run, ...]:
    runs = schema.runs
    query = select(runs.c.job, runs.c.no, runs.c.body).where(condition).order_by(runs.c.job, runs.c.no)
    return tuple(value_of(body, Run, f"run {job}.{no}") for job, no, body in connection.execute(query))


def _steps(connection: Connection, condition: ColumnElement[bool]) -> tuple[Step, ...]:
    steps = schema.steps
    query = (
        select(steps.c.job, steps.c.run, steps.c.id, steps.c.body)
        .where(condition)
        .order_by(steps.c.job, steps.c.run, steps.c.id)
    )
    return tuple(value_of(body, Step, f"step {job}.{run}.{id}") for job, run, id, body in connection.execute(query))
