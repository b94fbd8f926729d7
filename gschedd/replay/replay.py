"""A trace through the production core on a virtual clock: jobs come, a pass decides, runs end, a pass decides.

Every event asks for one pass; events of one instant share it. A start takes no time, nor does an end: what prepares and
cleans up nodes is not simulated. Job states follow the lifecycle's own table.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final

from msgspec import Struct

from gsched.errors import Impossible
from gsched.values.ids import Instant, JobId, NodeName, RunKey, RunNo
from gsched.values.run import NodeShare
from gsched.values.states import JobState
from gschedd.core.board import Board
from gschedd.core.inputs import Factors, HoldInput, Policy, QueueInput
from gschedd.core.plan import plan
from gschedd.lifecycle.table import Happening, next_state
from gschedd.replay.cluster import Shape, make_nodes, make_request, split
from gschedd.replay.knowledge import Knowledge, Setting
from gschedd.replay.traces import Trace, TraceJob

EPOCH: Final = 1_700_000_000_000  # the trace's zero as an instant of the core, which knows wall time only


class Finished(Struct, frozen=True):
    """One job's story. Milliseconds on the trace's clock."""

    job: TraceJob
    start: int  # of its first run
    end: int
    preemptions: int = 0

    @property
    def completion(self) -> int:
        return self.end - self.job.submit

    @property
    def wait(self) -> int:
        """All the time that it did not run."""
        return self.completion - self.job.duration


class Moment(Struct, frozen=True):
    """The cluster from one instant (ms on the trace's clock) to the next."""

    at: int
    busy: int  # GPUs
    torn: int  # idle GPUs of nodes that are partly busy
    waiting: int  # jobs


class Story(Struct, frozen=True):
    """What became of a trace."""

    jobs: tuple[Finished, ...]  # in order of submission
    moments: tuple[Moment, ...]
    passes: int
    preemptions: int = 0


class _Live:
    """A job that has come and not ended."""

    __slots__ = ("expected", "input", "job", "shares", "started", "state")

    def __init__(self, job: TraceJob, given: QueueInput, expected: int | None) -> None:
        self.job, self.input, self.expected = job, given, expected
        self.state = JobState.PENDING
        self.started = 0
        self.shares: tuple[NodeShare, ...] = ()


class Replay:
    """One trace under one policy and setting. `run` tells the story."""

    def __init__(self, trace: Trace, shape: Shape, policy: Policy, setting: Setting, interval: int = 0) -> None:
        """interval: ms; the least time between two passes. Raises Impossible if a job can never fit."""
        self._jobs, self._shape, self._interval = trace.jobs, shape, interval
        self._known = Knowledge(setting)
        self._policy = policy
        self._board = Board()
        for node in make_nodes(shape):
            self._board.put_node(node)
        self._live: dict[JobId, _Live] = {}
        self._ends: list[tuple[int, JobId]] = []
        self._due: list[tuple[int, JobId]] = []  # when a run passes what was expected of it
        self._finished: dict[JobId, Finished] = {}
        self._moments: list[Moment] = []
        self._idle: dict[NodeName, int] = {NodeName(f"n{i + 1}"): shape.gpus for i in range(shape.nodes)}
        self._busy = self._torn = self._waiting = self._passes = 0
        check_sizes(trace, shape)

    def run(self, progress: Callable[[int], None] | None = None) -> Story:
        """progress: told after each instant how many jobs have ended at it."""
        arrived, allowed = 0, 0  # jobs that came; the instant from which a pass may run
        owed = False
        while arrived < len(self._jobs) or self._ends or owed:
            now = self._next(arrived, allowed if owed else None)
            ended = self._end_runs(now)
            while arrived < len(self._jobs) and self._jobs[arrived].submit == now:
                self._submit(JobId(arrived + 1), self._jobs[arrived])
                arrived += 1
            owed = bool(self._waiting)
            if owed and now >= allowed:
                self._pass(now)
                allowed, owed = now + self._interval, False
            self._moments.append(Moment(now, self._busy, self._torn, self._waiting))
            if progress is not None:
                progress(ended)
        assert len(self._finished) == len(self._jobs)
        jobs = tuple(self._finished[JobId(i + 1)] for i in range(len(self._jobs)))
        return Story(jobs, tuple(self._moments), self._passes)

    def _next(self, arrived: int, allowed: int | None) -> int:
        """The next instant at which something happens; `allowed`: a pass waits for it."""
        instants = [] if allowed is None else [allowed]
        if arrived < len(self._jobs):
            instants.append(self._jobs[arrived].submit)
        if self._ends:
            instants.append(self._ends[0][0])
        return min(instants)

    def _submit(self, job: JobId, row: TraceJob) -> None:
        parts = split(row.gpus, self._shape)
        assert parts is not None
        expected = self._known.limit_of(row)
        factors = Factors(eligible=Instant(EPOCH + row.submit))
        live = _Live(row, QueueInput(job, make_request(*parts, expected), factors=factors), expected)
        self._live[job] = live
        self._waiting += 1
        self._board.put_job(live.input)

    def _pass(self, now: int) -> None:
        self._double_expectations(now)
        self._passes += 1
        for start in plan(self._board.snapshot(), self._policy, Instant(EPOCH + now)).starts:
            self._start(start.job, start.shares, now)

    def _start(self, job: JobId, shares: tuple[NodeShare, ...], now: int) -> None:
        live = self._live[job]
        live.state = next_state(next_state(live.state, Happening.PLACED), Happening.ALL_READY)
        live.started, live.shares = now, shares
        self._waiting -= 1
        self._board.drop_job(job)
        self._board.put_hold(self._hold(job, live))
        self._count(shares, 1)
        heappush(self._ends, (now + live.job.duration, job))
        if live.expected is not None:
            heappush(self._due, (now + live.expected, job))

    def _end_runs(self, now: int) -> int:
        ended = 0
        while self._ends and self._ends[0][0] == now:
            _, job = heappop(self._ends)
            live = self._live.pop(job)
            state = next_state(live.state, Happening.EXITED)
            live.state = next_state(state, Happening.CLEANED, JobState.COMPLETED)
            self._board.drop_hold(RunKey(job, RunNo(1)))
            self._count(live.shares, -1)
            self._known.ended(live.job)
            self._finished[job] = Finished(live.job, live.started, now)
            ended += 1
        return ended

    def _double_expectations(self, now: int) -> None:
        """A run that passed what was expected of it is expected to take twice as long."""
        while self._due and self._due[0][0] <= now:
            _, job = heappop(self._due)
            live = self._live.get(job)
            if live is None or live.expected is None:
                continue
            while live.started + live.expected <= now:
                live.expected *= 2
            self._board.put_hold(self._hold(job, live))
            heappush(self._due, (live.started + live.expected, job))

    def _hold(self, job: JobId, live: _Live) -> HoldInput:
        end = None if live.expected is None else Instant(EPOCH + live.started + live.expected)
        return HoldInput(RunKey(job, RunNo(1)), live.shares, end)

    def _count(self, shares: tuple[NodeShare, ...], sign: int) -> None:
        """Keep the sums of busy and torn GPUs; sign 1: taken, -1: given back."""
        for share in shares:
            gpus = share.gpus.bit_count() * sign
            before = self._idle[share.node]
            after = self._idle[share.node] = before - gpus
            assert 0 <= after <= self._shape.gpus, "a GPU was given twice"
            self._busy += gpus
            self._torn += after % self._shape.gpus - before % self._shape.gpus


def check_sizes(trace: Trace, shape: Shape) -> None:
    """Raises Impossible for the first job that the cluster can never hold."""
    for job in trace.jobs:
        if split(job.gpus, shape) is None:
            raise Impossible(
                f"job {job.id} of {trace.name} asks for {job.gpus} GPUs: {shape} has {shape.total}, and a gang's nodes "
                f"all give the same; use more nodes"
            )
