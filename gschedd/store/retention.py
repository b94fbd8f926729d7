"""What the store forgets, and when: a few rows at a time, so that nobody waits for it."""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from sqlalchemy import Connection, delete, select

from gsched.values.ids import Instant
from gschedd.store import schema

_DAY_S: Final = 24 * 3600


class Kept(Struct, frozen=True):
    """How long each kind is kept, in seconds."""

    events_s: int = 90 * _DAY_S
    scripts_s: int = 7 * _DAY_S  # after the job's end
    answers_s: int = 7 * _DAY_S


def delete_expired(connection: Connection, now: Instant, kept: Kept, limit: int) -> int:
    """Delete at most `limit` rows of each kind, oldest first; give how many went."""
    return (
        _answers(connection, now - kept.answers_s * 1000, limit)
        + _scripts(connection, now - kept.scripts_s * 1000, limit)
        + _events(connection, now - kept.events_s * 1000, limit)
    )


def _answers(connection: Connection, before: int, limit: int) -> int:
    table = schema.answers
    keys = connection.execute(
        select(table.c.uid, table.c.request_id).where(table.c.at < before).order_by(table.c.at).limit(limit)
    ).all()
    for uid, request_id in keys:
        connection.execute(delete(table).where(table.c.uid == uid, table.c.request_id == request_id))
    return len(keys)


def _scripts(connection: Connection, before: int, limit: int) -> int:
    scripts, jobs = schema.job_scripts, schema.jobs
    ids = connection.scalars(
        select(scripts.c.job)
        .join_from(scripts, jobs, scripts.c.job == jobs.c.id)
        .where(jobs.c.finished < before)
        .order_by(scripts.c.job)
        .limit(limit)
    ).all()
    if ids:
        connection.execute(delete(scripts).where(scripts.c.job.in_(ids)))
    return len(ids)


def _events(connection: Connection, before: int, limit: int) -> int:
    """Events lie in the order of their batches, so the old ones are the first: no index on the time is needed."""
    table = schema.events
    first = connection.execute(
        select(table.c.batch, table.c.line, table.c.at).order_by(table.c.batch, table.c.line).limit(limit)
    ).all()
    gone = 0
    for batch, line, at in first:
        if at >= before:
            break
        connection.execute(delete(table).where(table.c.batch == batch, table.c.line == line))
        gone += 1
    return gone
