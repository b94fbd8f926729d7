"""What a store promises, and how it fails.

A failure is one of three kinds, and the kind decides what the daemon does (reliability rule 2): `StoreUnavailable` is
tried again, `Deposed` ends the process because another controller took over, anything else is a bug or a broken
database and ends it too.
"""

from __future__ import annotations

from typing import ClassVar, Protocol

from gsched.errors import GschedError, Unavailable
from gsched.values.ids import BatchNo, Instant, Term
from gschedd.lifecycle.changes import Batch, Loaded


class StoreUnavailable(Unavailable):
    """The database did not answer, or its disk is full: whether the last batch was written is unknown."""

    code: ClassVar[str] = "store.unavailable"


class Deposed(GschedError):
    """Another controller has taken the next term: this one may not write any more."""

    code: ClassVar[str] = "store.deposed"

    def __init__(self, ours: Term, found: Term) -> None:
        super().__init__(f"another controller has taken over: the store is at term {found}, this process has {ours}")
        self.ours, self.found = ours, found


class StoreRefused(GschedError):
    """This store cannot be used as it is: in use, on a network file system, broken, or from a newer gschedd."""

    code: ClassVar[str] = "store.refused"


class OutOfOrder(Exception):
    """A batch whose number or counter does not follow the last one: a bug in the caller."""


class Journal(Protocol):
    """A store as the writer sees it."""

    def open(self, holder: str, now: Instant, min_job_age_s: int, answers_kept_s: int) -> Loaded:
        """Take the next term and read what memory keeps, in one transaction.

        Finished jobs older than `min_job_age_s` and answers older than `answers_kept_s` stay in the store only.
        Raises StoreRefused or StoreUnavailable.
        """

    def write(self, batch: Batch) -> None:
        """Make one batch durable, whole or not at all. A resend of the last one changes nothing.

        Raises Deposed, StoreUnavailable (outcome unknown: ask `last_batch`), OutOfOrder.
        """

    def last_batch(self) -> BatchNo:
        """Number of the last durable batch; connects anew after a failure. Raises StoreUnavailable."""


def check_follows(batch: Batch, term: Term, last: BatchNo, next_job_id: int) -> bool:
    """Say whether `batch` is new (True) or the last one sent again (False). Raises Deposed or OutOfOrder.

    `term`, `last` and `next_job_id` are what the store holds now.
    """
    if batch.term != term:
        raise Deposed(batch.term, term)
    if batch.number == last:
        return False
    if batch.number != last + 1:
        raise OutOfOrder(f"batch {batch.number} after {last}")
    if batch.next_job_id < next_job_id:
        raise OutOfOrder(f"batch {batch.number} sets the next job id back from {next_job_id} to {batch.next_job_id}")
    return True
