"""Identifiers, each its own type: no job id where a node name belongs."""

from __future__ import annotations

from typing import NamedTuple, NewType

JobId = NewType("JobId", int)
RunNo = NewType("RunNo", int)  # 1, 2, ... within one job; 0 = never ran
StepId = NewType("StepId", int)  # 0, 1, ... within one run
Term = NewType("Term", int)  # grows at each start of a controller
BatchNo = NewType("BatchNo", int)
Instant = NewType("Instant", int)  # milliseconds since the epoch, wall time
NodeName = NewType("NodeName", str)

BATCH_STEP = StepId(-1)  # the script itself, shown as JOB.batch


class RunKey(NamedTuple):
    """Names one try of one job, everywhere and for ever."""

    job: JobId
    run: RunNo

    def __str__(self) -> str:
        return f"{self.job}.{self.run}"
