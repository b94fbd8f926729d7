"""Makes rows of gqueue for tests: what a test does not name has a plain default."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from gsched.protocol.messages import JobRow
from gsched.values.ids import Instant, JobId, NodeName
from gsched.values.states import JobState

NOW = Instant(1_800_000_000_000)
NEVER = Instant(-1)

_PENDING = JobRow(
    id=JobId(7),
    partition="main",
    name="train",
    user="alice",
    uid=1000,
    state=JobState.PENDING,
    reason="Resources",
    detail="2 of 4 nodes are free",
    submitted=Instant(NOW - 60_000),
    started=NEVER,
    ended=NEVER,
    planned=NEVER,
    elapsed_s=0,
    time_limit_s=3600,
    nodes=(),
    nnodes=2,
    ntasks=16,
    cpus=32,
    mem_mib=-1,
    gpus=16,
    gpu_model="",
    restarts=0,
    exit_code=0,
    exit_signal=0,
    chdir="/home/alice",
)


def pending(**other: Any) -> JobRow:  # Any: any field of a row
    return replace(_PENDING, **other)


def running(seconds: int, *nodes: str, **other: Any) -> JobRow:  # Any: any field of a row
    """A job that has run for so many seconds."""
    at = Instant(NOW - 1000 * seconds)
    names = tuple(map(NodeName, nodes))
    base = pending(state=JobState.RUNNING, reason="None", started=at, elapsed_s=-1, nodes=names, nnodes=len(names))
    return replace(base, **other)
