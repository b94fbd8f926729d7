"""Values into rows and back. A row is a plain tuple in the order of its table's columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import msgspec
from sqlalchemy import Table

from gsched.errors import ProtocolError
from gsched.protocol.frames import pack_body, unpack_body
from gschedd.lifecycle.changes import (
    Batch,
    Change,
    Note,
    PutAnswer,
    PutJob,
    PutNode,
    PutPayload,
    PutReservation,
    PutRun,
    PutStep,
)
from gschedd.store import schema
from gschedd.store.journal import StoreRefused

Row = tuple[object, ...]
T = TypeVar("T")


def key_text(text: str) -> str:
    """Make any string fit a text column, one to one: no NUL, no half characters (names that were not UTF-8)."""
    if text.isascii() and "\\" not in text and "\0" not in text:
        return text
    escaped = text.replace("\\", "\\\\").replace("\0", "\\0")
    return escaped.encode("utf-8", "backslashreplace").decode("utf-8")


def _job(change: PutJob) -> Row:
    job = change.job
    finished = None
    if job.state.final:
        finished = job.kept_from
    return (job.id, job.uid, key_text(job.user), job.state.value, job.submitted, finished, pack_body(job))


def _payload(change: PutPayload) -> Row:
    return (change.job, pack_body(change.payload))


def _run(change: PutRun) -> Row:
    run = change.run
    return (run.job, run.no, int(run.closed), run.created, pack_body(run))


def _step(change: PutStep) -> Row:
    step = change.step
    return (step.job, step.run, step.id, pack_body(step))


def _node(change: PutNode) -> Row:
    return (key_text(change.node.name), pack_body(change.node))


def _reservation(change: PutReservation) -> Row:
    found = change.reservation
    return (key_text(found.name), int(found.closed is not None), pack_body(found))


def _answer(change: PutAnswer) -> Row:
    return (change.uid, key_text(change.request_id), change.at, pack_body(change))


def _event(batch: int, line: int, note: Note) -> Row:
    return (batch, line, note.at, note.kind, note.job, pack_body(note))


# The table of each change and the row's maker. Any: each maker takes its own kind of change.
_PUT: Final[Mapping[type[Change], tuple[Table, Callable[[Any], Row]]]] = {
    PutJob: (schema.jobs, _job),
    PutPayload: (schema.job_scripts, _payload),
    PutRun: (schema.runs, _run),
    PutStep: (schema.steps, _step),
    PutNode: (schema.nodes, _node),
    PutReservation: (schema.reservations, _reservation),
    PutAnswer: (schema.answers, _answer),
}


def key_of(change: Change) -> tuple[object, ...] | None:
    """What `change` replaces: a later change with the same type and key makes it void. None = appended only."""
    match change:
        case PutJob(job=job):
            return (job.id,)
        case PutPayload(job=job):
            return (job,)
        case PutRun(run=run):
            return (run.job, run.no)
        case PutStep(step=step):
            return (step.job, step.run, step.id)
        case PutNode(node=node):
            return (node.name,)
        case PutReservation(reservation=reservation):
            return (reservation.name,)
        case PutAnswer(uid=uid, request_id=request_id):
            return (uid, request_id)
        case Note():
            return None


def rows_of(batch: Batch) -> list[tuple[Table, list[Row]]]:
    """Turn a batch into rows, table by table. Of several values under one key only the last is packed."""
    last: dict[type[Change], dict[tuple[object, ...], Change]] = {}
    notes: list[Row] = []
    for change in batch.changes:
        if isinstance(change, Note):
            notes.append(_event(batch.number, len(notes), change))
            continue
        key = key_of(change)
        assert key is not None
        last.setdefault(type(change), {})[key] = change
    out: list[tuple[Table, list[Row]]] = []
    for kind, changes in last.items():
        table, make = _PUT[kind]
        out.append((table, [make(change) for change in changes.values()]))
    if notes:
        out.append((schema.events, notes))
    return out


def value_of(body: bytes, expected: type[T], where: str) -> T:
    """Unpack a row's body. Raises StoreRefused, which names the row, if it is not what was once written."""
    decoder = _DECODERS.get(expected)
    if decoder is None:
        decoder = _DECODERS[expected] = msgspec.msgpack.Decoder(expected)
    try:
        value: T = decoder.decode(body)
    except msgspec.DecodeError:
        return _slowly(body, expected, where)
    return value


# Made once a type: a start of the controller decodes hundreds of thousands of rows. Any: one of each type.
_DECODERS: Final[dict[type[Any], msgspec.msgpack.Decoder[Any]]] = {}


def _slowly(body: bytes, expected: type[T], where: str) -> T:
    """For bodies with names that are not UTF-8, and for damaged ones."""
    try:
        value: T = unpack_body(body, expected)
    except ProtocolError as error:
        raise StoreRefused(f"the database is damaged at {where}: {error.text}; restore it from a backup") from None
    return value
