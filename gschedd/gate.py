"""Holds back what the machine wants to say until its cause is durable (reliability rules 1 and 2).

Synchronous and without a clock: the daemon's loop and the simulation use the same object. Outcomes are let out in the
order they were made; a query's answer waits for the last batch that was applied when it was computed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from gsched.values.ids import BatchNo, JobId, Term
from gschedd.events import Outcome
from gschedd.lifecycle.changes import Batch, Change


class Gate:
    """Collects changes into numbered batches. `last_written` is the number found in the store at the start."""

    def __init__(self, term: Term, last_written: BatchNo) -> None:
        self._term = term
        self._written = last_written
        self._taken = last_written  # number of the last batch handed to the writer
        self._open: list[Change] = []
        self._waiting: deque[tuple[BatchNo, Outcome]] = deque()

    @property
    def waiting(self) -> int:
        """How many outcomes wait for the store."""
        return len(self._waiting)

    @property
    def settled(self) -> bool:
        """Everything that was applied is durable."""
        return not self._open and self._taken == self._written

    def take(self, outcome: Outcome) -> list[Outcome]:
        """Accept one outcome; give those that may leave at once (this one, if nothing is unwritten)."""
        self._open.extend(outcome.changes)
        if self.settled:
            return [outcome]
        needs = BatchNo(self._taken + 1) if self._open else self._taken
        self._waiting.append((needs, outcome))
        return []

    def next_batch(self, next_job_id: JobId) -> Batch | None:
        """Hand the open changes to the writer as one batch; None if there are none."""
        if not self._open:
            return None
        self._taken = BatchNo(self._taken + 1)
        batch = Batch(self._taken, self._term, next_job_id, tuple(self._open))
        self._open = []
        return batch

    def written(self, number: BatchNo) -> list[Outcome]:
        """The batch `number` and all before it are durable: give the outcomes that may leave now, in order."""
        self._written = max(self._written, number)
        out: list[Outcome] = []
        while self._waiting and self._waiting[0][0] <= self._written:
            out.append(self._waiting.popleft()[1])
        return out

    def take_out(self, fits: Callable[[Outcome], bool]) -> list[Outcome]:
        """Give up waiting for some outcomes, which must change nothing: they may leave, marked as unconfirmed."""
        out = [outcome for _, outcome in self._waiting if fits(outcome)]
        self._waiting = deque((needs, outcome) for needs, outcome in self._waiting if not fits(outcome))
        return out
