"""The daemon's writer: one thread that makes batches durable in the order they were handed over.

It tells the loop through one callable, which must be safe to call from another thread (for asyncio:
`functools.partial(loop.call_soon_threadsafe, take)`):

    Written(number)      this batch and all before it are durable
    Unconfirmed(cause)   the store does not answer; whether the batch in hand is durable is unknown. Nothing more may be
                         changed until the next Written. Said again with each new cause.
    Fatal(error)         the process has to end: deposed, or a bug. The thread has stopped.

When the store does not answer, the writer backs off, asks for the number of the last durable batch, and sends the
batch in hand again or goes on (reliability rule 2).
"""

from __future__ import annotations

import queue
import random
import threading
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from gsched.values.ids import BatchNo
from gschedd.lifecycle.changes import Batch
from gschedd.store.journal import Journal, OutOfOrder, StoreUnavailable

BACK_OFF_FIRST_S: Final = 0.05
BACK_OFF_MOST_S: Final = 5.0


class Written(Struct, frozen=True):
    number: BatchNo


class Unconfirmed(Struct, frozen=True):
    cause: str


class Fatal(Struct, frozen=True):
    error: BaseException


WriterSaid = Written | Unconfirmed | Fatal


class Writer:
    """Owns the journal's writing side from `start` to `stop`."""

    def __init__(self, journal: Journal, say: Callable[[WriterSaid], object]) -> None:
        self._journal = journal
        self._say = say
        self._batches: queue.SimpleQueue[Batch | None] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, name="writer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, batch: Batch) -> None:
        """Hand a batch over; never waits. After Fatal nothing more is written."""
        self._batches.put(batch)

    def stop(self, timeout_s: float = 10.0) -> bool:
        """Write what was handed over, then end; True if all of it is durable. Gives up where the store is away."""
        self._batches.put(None)
        self._stopping.set()
        self._thread.join(timeout_s)
        return not self._thread.is_alive() and self._batches.empty()

    def _work(self) -> None:
        try:
            while (batch := self._batches.get()) is not None:
                if not self._make_durable(batch):
                    self._batches.put(batch)  # stopped while the store was away: this one was not written
                    return
                self._say(Written(batch.number))
        except Exception as error:  # the thread's outer edge: the loop decides how the process ends
            self._say(Fatal(error))

    def _make_durable(self, batch: Batch) -> bool:
        """Write one batch, however often it takes. False if told to stop before that was certain."""
        try:
            self._journal.write(batch)
            return True
        except StoreUnavailable as error:
            cause = error.text
        self._say(Unconfirmed(cause))
        back_off_s = BACK_OFF_FIRST_S
        while not self._stopping.wait(back_off_s * random.uniform(0.5, 1.0)):
            back_off_s = min(BACK_OFF_MOST_S, back_off_s * 2)
            try:
                last = self._journal.last_batch()
                if last == batch.number:
                    return True
                if last != batch.number - 1:
                    raise OutOfOrder(f"batch {batch.number} was in hand, and the store has {last}")
                self._journal.write(batch)
                return True
            except StoreUnavailable as error:
                if error.text != cause:
                    cause = error.text
                    self._say(Unconfirmed(cause))
        return False
