"""Why each job waits, for a hundred thousand of them at once: kept as the pass's numbers, put into words when asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from gsched.values.ids import JobId
from gsched.values.states import Reason


class Wait(Struct, frozen=True):
    """Why one job waits."""

    job: JobId
    reason: Reason
    detail: str = ""


class Waits:
    """The jobs that a pass left waiting, in queue order. Equal to another with the same jobs and words."""

    def __init__(
        self,
        jobs: npt.NDArray[np.int64] | None = None,
        kinds: npt.NDArray[np.int64] | None = None,
        words: Callable[[int], tuple[Reason, str]] | None = None,
    ) -> None:
        """kinds: for each job the number that `words` takes; jobs of one kind wait for the same."""
        self._jobs = np.zeros(0, dtype=np.int64) if jobs is None else jobs
        self._kinds = self._jobs if kinds is None else kinds
        self._words = words
        self._known: dict[int, tuple[Reason, str]] = {}
        self._order: npt.NDArray[np.int64] | None = None

    @classmethod
    def made_of(cls, waits: Sequence[Wait]) -> Waits:
        """The same as these say."""
        jobs = np.array([wait.job for wait in waits], dtype=np.int64)
        return cls(jobs, np.arange(jobs.size), lambda kind: (waits[kind].reason, waits[kind].detail))

    def index(self) -> None:
        """Do now what the first `of` would have to do: sort the jobs by number."""
        if self._order is None:
            self._order = np.argsort(self._jobs, kind="stable")

    def of(self, job: JobId) -> Wait | None:
        """Why that job waits; None if this pass did not leave it waiting."""
        self.index()
        assert self._order is not None
        at = int(np.searchsorted(self._jobs, job, sorter=self._order))
        if at == self._jobs.size or self._jobs[self._order[at]] != job:
            return None
        return self._wait(job, int(self._kinds[self._order[at]]))

    def _wait(self, job: JobId, kind: int) -> Wait:
        if kind not in self._known:
            assert self._words is not None
            self._known[kind] = self._words(kind)
        return Wait(job, *self._known[kind])

    def __len__(self) -> int:
        return int(self._jobs.size)

    def __iter__(self) -> Iterator[Wait]:
        for job, kind in zip(self._jobs.tolist(), self._kinds.tolist(), strict=True):
            yield self._wait(JobId(job), kind)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Waits) and list(self) == list(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Waits({list(self)})"
