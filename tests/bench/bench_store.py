"""The store alone: rows made durable a second in batches of 1, 10, 100 submissions, and a start with a long queue."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from gsched.values.ids import BatchNo, JobId
from gschedd.lifecycle.changes import Batch, Change, Loaded
from gschedd.store.sql import SqlStore
from tests.bench.report import Row, milliseconds, show
from tests.store_values import NOW, submission

SIZES = (1, 10, 100)
REPEATS = 60
QUEUE = 20_000  # jobs that wait when the controller starts
ENVIRONMENT = {f"VARIABLE_{n}": "x" * 40 for n in range(40)}  # about 2 KiB, as a login shell's


class Submitter:
    """Writes submissions as the daemon does: job, script and answer of each in one batch."""

    def __init__(self, store: SqlStore, loaded: Loaded) -> None:
        self.store, self.term = store, loaded.term
        self.number, self.next_id = loaded.batch, loaded.next_job_id

    def batch(self, size: int) -> Batch:
        changes: list[Change] = []
        for _ in range(size):
            changes += submission(self.next_id, ENVIRONMENT)
            self.next_id = JobId(self.next_id + 1)
        self.number = BatchNo(self.number + 1)
        return Batch(self.number, self.term, self.next_id, tuple(changes))

    def write_ms(self, size: int) -> float:
        batch = self.batch(size)
        return milliseconds(lambda: self.store.write(batch))


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="gs-") as folder:
        floor_file = Path(folder) / "floor"
        with floor_file.open("wb") as file:
            floor = [milliseconds(append_and_sync(file.fileno())) for _ in range(REPEATS)]
        store = opened(folder)
        submitter = Submitter(store, store.open("bench", NOW, 300, 600))
        took = {size: [submitter.write_ms(size) for _ in range(REPEATS)] for size in SIZES}
        while submitter.next_id <= QUEUE:
            submitter.write_ms(1000)
        store.close()
        starts = [start_ms(folder) for _ in range(3)]
    rows = [Row("floor: append 4 KiB and fdatasync on the same disk", floor)]
    budgets = {100: "under 15"}
    rows += [Row(f"one batch of {n} submissions", took[n], budget=budgets.get(n, "")) for n in SIZES]
    rows += [Row(f"  rows a second, {3 * n} a batch", [3000 * n / ms for ms in took[n]], "1/s") for n in SIZES]
    rows.append(Row(f"open and load, {QUEUE:,} jobs waiting", starts, budget="100,000 under 5,000"))
    show("Store", rows)


def append_and_sync(fd: int) -> Callable[[], None]:
    """The least that a durable commit can cost."""

    def action() -> None:
        os.write(fd, b"x" * 4096)
        os.fdatasync(fd)

    return action


def opened(folder: str) -> SqlStore:
    return SqlStore("", Path(folder))


def start_ms(folder: str) -> float:
    store = opened(folder)
    began = perf_counter()
    loaded = store.open("bench", NOW, 300, 600)
    took = (perf_counter() - began) * 1000
    assert len(loaded.jobs) >= QUEUE
    store.close()
    return took


if __name__ == "__main__":
    main()
