"""The queue: a row for each job that may start, kept up to date job by job."""

from __future__ import annotations

from typing import Final

import numpy as np

from gsched.values.ids import JobId
from gschedd.core.classes import ClassTable
from gschedd.core.columns import Numbers, Rows
from gschedd.core.inputs import QueueInput
from gschedd.core.kernels.arrays import SOMEDAY, FactorArrays, QueueArrays

_JOB: Final = QueueArrays._fields.index("job")
_CLS: Final = QueueArrays._fields.index("cls")
_ACCOUNT: Final = QueueArrays._fields.index("account")
_WIDTH: Final = len(QueueArrays._fields) - 1  # the last says in which order they are


class Jobs:
    """Rows in no order: that of a pass is made when it begins (order.py)."""

    def __init__(self, classes: ClassTable, accounts: Numbers[str]) -> None:
        self._classes = classes
        self._accounts = accounts
        self._rows = Rows(_WIDTH + len(FactorArrays._fields))
        self._row: dict[JobId, int] = {}

    def put(self, job: QueueInput) -> None:
        """Enter a job, or say another thing of it."""
        values = self._columns(job)
        row = self._row.get(job.job)
        if row is None:
            self._row[job.job] = self._rows.add(values)
        else:
            self._give_back(row)
            self._rows.grid[:, row] = values

    def drop(self, job: JobId) -> None:
        """It may not start any more, or not yet."""
        row = self._row.pop(job, None)
        if row is None:
            return
        self._give_back(row)
        self._rows.drop(row)
        if row < self._rows.used:
            self._row[JobId(int(self._rows.grid[_JOB, row]))] = row

    def queue(self) -> QueueArrays:
        """Views."""
        rows = np.arange(self._rows.used, dtype=np.int64)
        return QueueArrays._make((*self._rows.grid[:_WIDTH, : self._rows.used], rows))

    def factors(self) -> FactorArrays:
        """Views."""
        return FactorArrays(*self._rows.grid[_WIDTH:, : self._rows.used])

    def _give_back(self, row: int) -> None:
        self._classes.leave(int(self._rows.grid[_CLS, row]))
        self._accounts.give_back(int(self._rows.grid[_ACCOUNT, row]))

    def _columns(self, job: QueueInput) -> tuple[int, ...]:
        """In the order of QueueArrays, then of FactorArrays."""
        factors = job.factors
        return (
            job.job,
            self._classes.enter(job),
            job.request.time_limit_s * 1000 or SOMEDAY,
            job.rank,
            self._accounts.take(job.account),
            job.preempts,
            factors.eligible,
            factors.qos,
            factors.partition,
            factors.nice,
            job.uid,
        )
