"""What the core is told of how long a job runs: three settings, never mixed, and the limits of the trace itself."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from gsched.errors import BadRequest
from gschedd.replay.traces import TraceJob


class Setting(StrEnum):
    BLIND = "blind"  # sizes only: no job has a limit
    PREDICTED = "predicted"  # told from jobs of the same group and size that have ended before, on the virtual clock
    ORACLE = "oracle"  # the limit is the duration
    GIVEN = "given"  # the limits that stand in the trace

    @property
    def words(self) -> str:
        return _WORDS[self]


_WORDS: Final = {
    Setting.BLIND: "sizes only, no job has a limit",
    Setting.PREDICTED: "limit = mean duration of the jobs of the same group and size that ended before it came",
    Setting.ORACLE: "limit = duration",
    Setting.GIVEN: "the limits in the trace",
}


def parse_settings(text: str) -> tuple[Setting, ...]:
    """Raises BadRequest."""
    known = [setting.value for setting in Setting]
    wrong = [word for word in text.split(",") if word not in known]
    if wrong:
        raise BadRequest(f"--setting: found {wrong[0]!r}; expected some of {','.join(known)}")
    return tuple(dict.fromkeys(Setting(word) for word in text.split(",")))


class Knowledge:
    """What is known of durations when a job comes. `ended` is told of each end."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self._history: dict[tuple[str, int], tuple[int, int]] = {}  # (jobs, sum of their durations)

    def limit_of(self, job: TraceJob) -> int | None:
        """Milliseconds that the core is told; None = no limit."""
        if self.setting is Setting.BLIND:
            return None
        if self.setting is Setting.ORACLE:
            return max(job.duration, 1)
        if self.setting is Setting.GIVEN:
            return job.limit
        count, total = self._history.get((job.group, job.gpus), (0, 0))
        return max(total // count, 1) if count else None

    def ended(self, job: TraceJob) -> None:
        if self.setting is Setting.PREDICTED:
            count, total = self._history.get((job.group, job.gpus), (0, 0))
            self._history[job.group, job.gpus] = (count + 1, total + job.duration)


def check_limits(jobs: Sequence[TraceJob], setting: Setting) -> None:
    """Raises BadRequest for `given` limits where there are none."""
    if setting is Setting.GIVEN and not any(job.limit for job in jobs):
        raise BadRequest("--setting given: the trace has no limits; use blind, predicted or oracle")
