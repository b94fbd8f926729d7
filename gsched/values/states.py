"""The states a job shows, and how a run ends."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class JobState(StrEnum):
    """Exactly one at any time, from the reply to gsub until retention ends."""

    PENDING = "PENDING"
    CONFIGURING = "CONFIGURING"  # nodes granted, the run is being prepared on them
    RUNNING = "RUNNING"
    COMPLETING = "COMPLETING"  # the end is decided; nodes are cleaning up
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    TIMEOUT = "TIMEOUT"
    NODE_FAIL = "NODE_FAIL"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"

    @property
    def compact(self) -> str:
        """Slurm's two letters."""
        return _COMPACT[self]

    @property
    def final(self) -> bool:
        return self in FINAL


_COMPACT: Final = {
    JobState.PENDING: "PD",
    JobState.CONFIGURING: "CF",
    JobState.RUNNING: "R",
    JobState.COMPLETING: "CG",
    JobState.COMPLETED: "CD",
    JobState.FAILED: "F",
    JobState.CANCELLED: "CA",
    JobState.TIMEOUT: "TO",
    JobState.NODE_FAIL: "NF",
    JobState.OUT_OF_MEMORY: "OOM",
}

FINAL: Final = frozenset(
    {
        JobState.COMPLETED,
        JobState.FAILED,
        JobState.CANCELLED,
        JobState.TIMEOUT,
        JobState.NODE_FAIL,
        JobState.OUT_OF_MEMORY,
    }
)
LIVE: Final = frozenset({JobState.CONFIGURING, JobState.RUNNING, JobState.COMPLETING})  # a run of it exists


class RunOutcome(StrEnum):
    """How one run ended: a final job state, or that the job goes on."""

    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    TIMEOUT = "TIMEOUT"
    NODE_FAIL = "NODE_FAIL"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    REQUEUED = "REQUEUED"
    LAUNCH_FAILED = "LAUNCH_FAILED"


class Reason(StrEnum):
    """Why a job waits, or why it ended as it did; Slurm's words where it has one."""

    NONE = "None"
    PRIORITY = "Priority"  # a job before it in the order must wait, and this one would delay it
    RESOURCES = "Resources"
    HELD_USER = "JobHeldUser"
    HELD_ADMIN = "JobHeldAdmin"
    REQ_NODE_NOT_AVAIL = "ReqNodeNotAvail"  # a node it names is drained, down or away
    RESERVATION = "Reservation"  # the one it names has not begun, is full, or is over
    BAD_CONSTRAINTS = "BadConstraints"  # became impossible after it was taken
    NODES_UNKNOWN = "NodesUnknown"  # no node is known yet
    RUN_LOST = "RunLost"  # its last run is on a silent node: barred until the end is certain
    CLEANING = "Cleaning"  # its last run is still being cleaned up
    LAUNCH_FAILURE = "JobLaunchFailure"
    NON_ZERO_EXIT = "NonZeroExitCode"
    RAISED_SIGNAL = "RaisedSignal"
    TIME_LIMIT = "TimeLimit"
    NODE_DOWN = "NodeDown"
    OUTPUT_FILE = "OutputFile"
    OUT_OF_MEMORY = "OutOfMemory"
