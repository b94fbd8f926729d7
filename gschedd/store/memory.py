"""A store in memory for the simulation: the object outlives a pretended crash of the controller, as a disk does.

`write` is durable at once, as the real store's is: a crash before the simulation calls it loses the batch. It can fail
without saying what became of a batch.
"""

from __future__ import annotations

from collections import deque

from gsched.values.ids import BatchNo, Instant, JobId, NodeName, RunKey, StepId, Term
from gsched.values.job import Job, JobPayload
from gsched.values.node import Node
from gsched.values.reservation import Reservation
from gsched.values.run import Run, Step
from gschedd.lifecycle.changes import (
    Batch,
    Change,
    Loaded,
    Note,
    PutAnswer,
    PutJob,
    PutNode,
    PutPayload,
    PutReservation,
    PutRun,
    PutStep,
)
from gschedd.store.journal import StoreUnavailable, check_follows


class MemoryJournal:
    """See journal.Journal. `batches` and `notes` are what is durable, for tests to look at."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.notes: list[Note] = []
        self._jobs: dict[JobId, Job] = {}
        self._payloads: dict[JobId, JobPayload] = {}
        self._runs: dict[RunKey, Run] = {}
        self._steps: dict[tuple[RunKey, StepId], Step] = {}
        self._nodes: dict[NodeName, Node] = {}
        self._reservations: dict[str, Reservation] = {}
        self._answers: dict[tuple[int, str], PutAnswer] = {}
        self._term = Term(0)
        self._last = BatchNo(0)
        self._next_job_id = JobId(1)
        self._failures: deque[tuple[bool, str]] = deque()

    # --- as the real store

    def open(self, holder: str, now: Instant, min_job_age_s: int, answers_kept_s: int) -> Loaded:  # noqa: ARG002  as promised
        """See Journal.open."""
        self._term = Term(self._term + 1)
        ended_after = now - min_job_age_s * 1000
        held = {run.job for run in self._runs.values() if not run.closed}  # ended, not clean everywhere
        jobs = tuple(j for j in self._jobs.values() if not j.state.final or j.kept_from >= ended_after or j.id in held)
        unfinished = {job.id for job in jobs if not job.state.final}
        runs = tuple(run for run in self._runs.values() if not run.closed)
        live = {run.key for run in runs}
        answers = [answer for answer in self._answers.values() if answer.at >= now - answers_kept_s * 1000]
        return Loaded(
            term=self._term,
            batch=self._last,
            next_job_id=self._next_job_id,
            jobs=tuple(sorted(jobs, key=lambda job: job.id)),
            runs=tuple(sorted(runs, key=lambda run: run.key)),
            steps=tuple(step for (key, _), step in sorted(self._steps.items()) if step.ended is None and key in live),
            payloads=tuple((job, payload) for job, payload in sorted(self._payloads.items()) if job in unfinished),
            nodes=tuple(node for _, node in sorted(self._nodes.items())),
            reservations=tuple(r for _, r in sorted(self._reservations.items()) if r.closed is None),
            answers=tuple(sorted(answers, key=lambda answer: answer.at)),
        )

    def write(self, batch: Batch) -> None:
        """See Journal.write: durable when it returns. Fails as `fail_next` said."""
        if self._failures:
            stored, cause = self._failures.popleft()
            if stored:
                self._store(batch)
            raise StoreUnavailable(cause)
        self._store(batch)

    def last_batch(self) -> BatchNo:
        """See Journal.last_batch. Fails as `fail_next` said."""
        if self._failures:
            raise StoreUnavailable(self._failures.popleft()[1])
        return self._last

    # --- what only a simulation can do

    def fail_next(self, *, stored: bool, cause: str = "the connection was lost") -> None:
        """Make the next `write` or `last_batch` raise StoreUnavailable; `stored`: the batch is durable all the same."""
        self._failures.append((stored, cause))

    def _store(self, batch: Batch) -> None:
        if not check_follows(batch, self._term, self._last, self._next_job_id):
            return
        for change in batch.changes:
            self._apply(change)
        self._last, self._next_job_id = batch.number, batch.next_job_id
        self.batches.append(batch)

    def _apply(self, change: Change) -> None:
        match change:
            case PutJob(job):
                self._jobs[job.id] = job
            case PutPayload(id, payload):
                self._payloads[id] = payload
            case PutRun(run):
                self._runs[run.key] = run
            case PutStep(step):
                self._steps[RunKey(step.job, step.run), step.id] = step
            case PutNode(node):
                self._nodes[node.name] = node
            case PutReservation(reservation):
                self._reservations[reservation.name] = reservation
            case PutAnswer(uid, request_id):
                self._answers[uid, request_id] = change
            case Note():
                self.notes.append(change)
