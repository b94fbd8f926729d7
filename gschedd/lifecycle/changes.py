"""What is written ahead: whole values under their keys. Applying a change twice is the same as once."""

from __future__ import annotations

from msgspec import Struct

from gsched.values.ids import BatchNo, Instant, JobId, NodeName, Term
from gsched.values.job import Job, JobPayload
from gsched.values.node import Node
from gsched.values.reservation import Reservation
from gsched.values.run import Run, Step


class PutJob(Struct, frozen=True):
    job: Job


class PutPayload(Struct, frozen=True):
    job: JobId
    payload: JobPayload


class PutRun(Struct, frozen=True):
    run: Run


class PutStep(Struct, frozen=True):
    step: Step


class PutNode(Struct, frozen=True):
    node: Node


class PutReservation(Struct, frozen=True):
    reservation: Reservation


class PutAnswer(Struct, frozen=True):
    """The answer to (uid, request id), so that a retried request gets it again."""

    uid: int
    request_id: str
    body: bytes  # the packed UserReply
    at: Instant


class Note(Struct, frozen=True):
    """One line of history, append-only; the audit log too."""

    at: Instant
    kind: str  # "job.submitted", "run.lost", "node.drained", ...
    job: JobId = JobId(0)
    node: NodeName = NodeName("")
    uid: int = -1
    text: str = ""


Change = PutJob | PutPayload | PutRun | PutStep | PutNode | PutReservation | PutAnswer | Note


class Batch(Struct, frozen=True):
    """What one transaction writes, whole or not at all, together with `number` and the counters."""

    number: BatchNo
    term: Term
    next_job_id: JobId
    changes: tuple[Change, ...]


class Loaded(Struct, frozen=True, kw_only=True):
    """What a controller starts from: the store's content that memory keeps, read in the transaction that took the
    term."""

    term: Term
    batch: BatchNo  # of the last batch written
    next_job_id: JobId
    jobs: tuple[Job, ...] = ()  # unfinished, with a live run, or finished within min_job_age
    runs: tuple[Run, ...] = ()  # not closed
    steps: tuple[Step, ...] = ()  # unfinished, of those runs
    payloads: tuple[tuple[JobId, JobPayload], ...] = ()  # of unfinished jobs
    nodes: tuple[Node, ...] = ()
    reservations: tuple[Reservation, ...] = ()  # not closed
    answers: tuple[PutAnswer, ...] = ()
