"""A process that submits jobs into a store until somebody kills it; each acknowledged batch is a line on stdout.

    python -m tests.store_child STATE_DIR SUBMISSIONS_PER_BATCH [DIE_IN_BATCH DIE_AT]

DIE_AT: the process kills itself with signal 9 in batch DIE_IN_BATCH, at the DIE_AT-th statement of its transaction
(1 = the BEGIN), or at "commit" just before it, or at "written" after it and before anybody was told.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from sqlalchemy import event

from gsched.values.ids import BatchNo, JobId
from gschedd.lifecycle.changes import Batch, Change, Note
from gschedd.store.sql import SqlStore
from tests.store_values import NOW, submission


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Fuse:
    """Kills the process at one place in one batch."""

    def __init__(self, batch: int, at: str) -> None:
        self.batch, self.at = batch, at
        self.now_in = 0
        self.statements = 0

    def enter(self, batch: int) -> None:
        self.now_in, self.statements = batch, 0

    def on_statement(self, *_: Any) -> None:  # Any: SQLAlchemy hands over its own objects
        self.statements += 1
        if self.now_in == self.batch and self.at == str(self.statements):
            die()

    def on_commit(self, *_: Any) -> None:
        if self.now_in == self.batch and self.at == "commit":
            die()

    def on_written(self) -> None:
        if self.now_in == self.batch and self.at == "written":
            die()


def main(state_dir: str, per_batch: str, die_in: str = "0", die_at: str = "") -> None:
    store = SqlStore("", Path(state_dir))
    loaded = store.open("child", NOW, 300, 600)
    fuse = Fuse(int(die_in), die_at)
    event.listen(store._writing, "before_cursor_execute", fuse.on_statement)
    event.listen(store._writing, "commit", fuse.on_commit)
    number, next_job_id = loaded.batch, loaded.next_job_id
    while True:
        number = BatchNo(number + 1)
        changes: list[Change] = []
        for _ in range(int(per_batch)):
            changes += submission(next_job_id)
            changes.append(Note(NOW, "job.submitted", next_job_id))
            next_job_id = JobId(next_job_id + 1)
        fuse.enter(number)
        store.write(Batch(number, loaded.term, next_job_id, tuple(changes)))
        fuse.on_written()
        sys.stdout.write(f"{number} {next_job_id}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
