"""The controller's memory, and the one way to change it: through a Step, which records each change for the journal.

Lives on the loop's thread only. What is not a change (who is connected, what each node uses, the last plan's
reasons) is derived, and made anew after a start.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from typing import TypeVar

from msgspec.structs import replace

from gsched.clock import Now
from gsched.config.layout import Layout
from gsched.config.settings import PartitionSettings, Settings
from gsched.protocol.link import ControllerMessage
from gsched.values.ids import Instant, JobId, NodeName, RunKey
from gsched.values.job import Job, JobPayload, Request
from gsched.values.node import Node
from gsched.values.reservation import Reservation
from gsched.values.run import NodePhase, NodeShare, Run, Step
from gschedd.core.inputs import NodeInput, PlannedStart, QueueInput
from gschedd.core.waits import Waits
from gschedd.events import Close, Outcome, Send
from gschedd.lifecycle.changes import (
    Loaded,
    Note,
    PutAnswer,
    PutJob,
    PutNode,
    PutPayload,
    PutReservation,
    PutRun,
    PutStep,
)

K = TypeVar("K")

AVOID_S = 600  # how long a job keeps off a node where its launch failed


class Use:
    """What live runs hold of one node."""

    def __init__(self) -> None:
        self.gpus = 0
        self.cpus = 0
        self.mem_mib = 0
        self.ports: set[int] = set()
        self.last_port = 0  # given out last; the next run gets the one after, so a port in use costs one try only
        self.runs: dict[RunKey, int] = {}  # run -> its index of this node

    def add(self, key: RunKey, index: int, share: NodeShare) -> None:
        """Take a share. A GPU held twice would be our bug, and is caught here."""
        assert not self.gpus & share.gpus, f"{key}: GPU held twice on {share.node}"
        self.gpus |= share.gpus
        self.cpus += share.cpus
        self.mem_mib += share.mem_mib
        self.ports.add(share.port)
        self.runs[key] = index

    def drop(self, key: RunKey, share: NodeShare) -> None:
        """Give a share back."""
        del self.runs[key]
        self.gpus &= ~share.gpus
        self.cpus -= share.cpus
        self.mem_mib -= share.mem_mib
        self.ports.discard(share.port)


class Presence:
    """Whether a node's agent is there, as far as this controller has heard. Not durable."""

    def __init__(self, heard: int) -> None:
        self.session: int | None = None
        self.heard = heard  # boot time, ms
        self.next_seq = 1
        self.reconciled = False  # since this controller started
        self.foreign: set[RunKey] = set()  # runs it has and should not: being purged


class Unseen:
    """What has changed since a planner was last told, by name: it is told how each is then."""

    def __init__(self) -> None:
        self.nodes: dict[NodeName, None] = {}
        self.runs: dict[RunKey, None] = {}
        self.jobs: dict[JobId, None] = {}


class State:
    """Everything in memory."""

    def __init__(self, settings: Settings, loaded: Loaded, now: Now) -> None:
        self.settings = settings
        self.layout = Layout(settings)
        self.term = loaded.term
        self.next_job_id = loaded.next_job_id
        self.started = now
        self.unseen = Unseen()
        self.queue_inputs: dict[JobId, QueueInput] = {}  # as made for the last whole input, but for `queue_stale`
        self.queue_stale: dict[JobId, None] = {}
        self.jobs: dict[JobId, Job] = {job.id: job for job in loaded.jobs}
        self.job_order: list[JobId] = sorted(self.jobs)  # ids only grow: new ones go to the end
        self.pending: list[JobId] = []  # in the queue's order: by id
        # Stored instants become deadlines on this process's boot clock (ms): the wall clock may step.
        self.backing_off: dict[JobId, int] = {}  # pending jobs whose launch failed: not started before
        self.avoiding: dict[JobId, int] = {}  # until when a job's `avoid` counts
        self.run_clock: dict[RunKey, int] = {}  # when a live run started
        self.recent: dict[JobId, int] = {}  # ended jobs still in memory -> boot ms since when they have been
        self.payloads: dict[JobId, JobPayload] = dict(loaded.payloads)
        self.runs: dict[RunKey, Run] = {}
        self.job_runs: dict[JobId, list[RunKey]] = {}  # live ones
        self.steps: dict[tuple[RunKey, int], Step] = {}  # unfinished steps of live runs
        self.nodes: dict[NodeName, Node] = {node.name: node for node in loaded.nodes}
        self.unseen.nodes.update(dict.fromkeys(self.nodes))
        self.steps.update({(RunKey(s.job, s.run), s.id): s for s in loaded.steps})
        self.use: dict[NodeName, Use] = {name: Use() for name in self.nodes}
        self.presence: dict[NodeName, Presence] = {name: Presence(now.boot) for name in self.nodes}
        self.sessions: dict[int, NodeName] = {}
        self.node_input: dict[NodeName, NodeInput] = {}  # as last made; one that has changed since is not there
        self.node_inputs: tuple[NodeInput, ...] | None = None  # all of them, if they are all there
        self.node_order: tuple[NodeName, ...] = ()
        self.possible_on: tuple[NodeInput, ...] = ()  # the nodes for which `possible` counts
        self.possible: set[Request] = set()  # requests that these nodes could hold, were they empty
        self.reservations: dict[str, Reservation] = {r.name: r for r in loaded.reservations}  # not closed
        self.reservations_begun: set[str] = set()  # for which a pass was asked since they began
        self.answers: dict[tuple[int, str], bytes] = {(a.uid, a.request_id): a.body for a in loaded.answers}
        self.answer_ages: dict[tuple[int, str], Instant] = {(a.uid, a.request_id): a.at for a in loaded.answers}
        self.run_deadlines: dict[RunKey, int] = {}  # boot ms: prepared, or cleaned, by then
        self.waits = Waits()  # of the last pass
        self.moved_on: set[JobId] = set()  # no longer pending at some time since then
        self.planned: dict[JobId, PlannedStart] = {}
        self.noted_drops: set[JobId] = set()  # whose starts were dropped, plan after plan, and history has it
        self.noted_starts: dict[JobId, PlannedStart] = {}  # planned starts as history has them
        self._index(loaded)

    def _index(self, loaded: Loaded) -> None:
        for job in sorted(loaded.jobs, key=lambda j: j.id):
            self._file(job, self.started.boot)
            if job.avoid:
                self.back_off(job.id, self._left(job.not_before), self._left(job.avoid_until), self.started.boot)
        for run in loaded.runs:
            self._hold(run)
            self.run_deadlines[run.key] = self.started.boot + 1000 * self.settings.times.prepare_timeout_s
            if run.started is not None:
                self.run_clock[run.key] = self.started.boot - max(0, self.started.wall - run.started)

    def _left(self, until: Instant) -> int:
        """What is left of a stored wait, in ms; never more than the longest that is given."""
        return max(0, min(until - self.started.wall, 1000 * AVOID_S))

    def back_off(self, job: JobId, wait_ms: int, avoid_ms: int, boot: int) -> None:
        """Let a job wait before its next launch, and keep off the nodes where it failed."""
        self.job_changed(job)
        self.backing_off[job] = boot + wait_ms
        self.avoiding[job] = boot + avoid_ms

    def _file(self, job: Job, boot: int) -> None:
        """Keep the indices of jobs right. A finished job's age is measured here: the wall clock may step."""
        self.job_changed(job.id)
        if job.state == "PENDING":
            at = bisect_left(self.pending, job.id)
            if at == len(self.pending) or self.pending[at] != job.id:
                self.pending.insert(at, job.id)
        else:
            at = bisect_left(self.pending, job.id)
            if at < len(self.pending) and self.pending[at] == job.id:
                del self.pending[at]
            self.moved_on.add(job.id)
            self.planned.pop(job.id, None)
        if job.state.final:
            self.payloads.pop(job.id, None)
            self.recent.setdefault(job.id, boot)

    def _hold(self, run: Run) -> None:
        """Enter a live run (from the store, or new)."""
        self.run_changed(run.key)
        self.runs[run.key] = run
        self.job_runs.setdefault(run.job, []).append(run.key)
        for index, part in enumerate(run.parts):
            if part.phase is not NodePhase.CLEAN:
                self.use.setdefault(part.share.node, Use()).add(run.key, index, part.share)

    def forget_ended(self, before: int) -> None:
        """Drop jobs that ended before an instant (boot ms) from memory; the store keeps them."""
        old = itertools.takewhile(lambda item: item[1] < before, self.recent.items())  # in order of their end
        for job in [job for job, _ in old if job not in self.job_runs]:
            del self.recent[job]
            del self.jobs[job]
            del self.job_order[bisect_left(self.job_order, job)]

    def forget_answers(self, before: Instant) -> None:
        """Drop the answers to requests that nobody will send again. Oldest first, so the walk is short."""
        for key, _ in list(itertools.takewhile(lambda item: item[1] < before, self.answer_ages.items())):
            del self.answer_ages[key]
            del self.answers[key]

    # --- what the planner is to be told

    def node_changed(self, name: NodeName) -> None:
        """What the node is, or whether it may take something new, may be another."""
        self.unseen.nodes[name] = None
        self.node_input.pop(name, None)
        self.node_inputs = None

    def run_changed(self, key: RunKey) -> None:
        """What the run holds, or whether it bars its job from starting again, may be another."""
        self.unseen.runs[key] = None
        self.job_changed(key.job)

    def job_changed(self, job: JobId) -> None:
        """What a pass is told of the job may be another thing now."""
        self.unseen.jobs[job] = None
        self.queue_stale[job] = None

    def reservation_changed(self, name: str) -> None:
        """A reservation came or went: the pending jobs that run inside it may start, or may not any more."""
        for job in self.pending:
            if self.jobs[job].request.reservation == name:
                self.job_changed(job)

    def take_unseen(self) -> Unseen:
        """All that has changed since the last call; at first everything."""
        unseen, self.unseen = self.unseen, Unseen()
        return unseen

    # --- looking

    def all_later(self, late_ms: int) -> None:
        """Move every deadline: this process stood still for so long, and nobody could be heard or answered."""
        for presence in self.presence.values():
            presence.heard += late_ms
        _move(self.run_deadlines, late_ms)
        _move(self.recent, late_ms)
        _move(self.backing_off, late_ms)
        _move(self.avoiding, late_ms)

    def due_again(self, boot: int) -> bool:
        """Whether a pending job's launch back-off, or its keeping off nodes, has just passed."""
        due = False
        for waits in (self.backing_off, self.avoiding):
            for job in [job for job, at in waits.items() if at <= boot]:
                del waits[job]
                self.job_changed(job)
                due = True
        return due

    def elapsed_s(self, run: RunKey, boot: int) -> int:
        """How long a live run has been running, in whole seconds; 0 if it never was."""
        since = self.run_clock.get(run)
        return 0 if since is None else max(0, boot - since) // 1000

    def live_runs(self, job: JobId) -> list[Run]:
        """The runs of a job that are not certainly over everywhere."""
        return [self.runs[key] for key in self.job_runs.get(job, ())]

    def connected(self, name: NodeName) -> bool:
        """Whether work may be sent there now: a session stands, and what it has was compared."""
        presence = self.presence[name]
        return presence.session is not None and presence.reconciled

    def responding(self, name: NodeName, now: Now) -> bool:
        """Whether the node's agent was heard of within node_timeout."""
        presence = self.presence[name]
        return presence.reconciled and now.boot - presence.heard <= 1000 * self.settings.times.node_timeout_s

    def coming_back(self, now: Now) -> bool:
        """Whether this controller has just started and still waits for known nodes (reliability rule 9)."""
        if now.boot - self.started.boot >= 1000 * self.settings.times.node_timeout_s:
            return False
        return any(
            not self.presence[name].reconciled and node.lost_at is None and not node.drained
            for name, node in self.nodes.items()
        )

    def partition(self, name: str) -> PartitionSettings | None:
        return next((p for p in self.settings.partitions if p.name == name), None)


def _move(deadlines: dict[K, int], by_ms: int) -> None:
    for key in deadlines:
        deadlines[key] += by_ms


class StateChange:
    """One event's work on the state: what is put here is applied at once and recorded for the journal."""

    def __init__(self, state: State, now: Now) -> None:
        self.state = state
        self.now = now
        self.at = Instant(now.wall)
        self.outcome = Outcome()
        self.touched: dict[NodeName, dict[RunKey, None]] = {}  # whose wanted set changed

    def put_job(self, job: Job) -> None:
        if job.state.final and job.finished is None:
            job = replace(job, finished=self.at)
        if job.id not in self.state.jobs:
            self.state.job_order.append(job.id)
        self.state.jobs[job.id] = job
        self.state._file(job, self.now.boot)
        self.outcome.changes.append(PutJob(job))

    def put_payload(self, job: JobId, payload: JobPayload) -> None:
        self.state.payloads[job] = payload
        self.outcome.changes.append(PutPayload(job, payload))

    def new_run(self, run: Run) -> None:
        """Enter a new run: its shares are held from now on, its nodes are told."""
        self.state._hold(run)
        self.outcome.changes.append(PutRun(run))
        for part in run.parts:
            self.touch(part.share.node, run.key)

    def put_run(self, run: Run) -> None:
        """Replace a live run. Shares of parts that became clean are given back; a closed run is forgotten."""
        state = self.state
        old = state.runs[run.key]
        for before, after in zip(old.parts, run.parts, strict=True):
            if before.phase is not NodePhase.CLEAN and after.phase is NodePhase.CLEAN:
                state.use[after.share.node].drop(run.key, after.share)
        state.runs[run.key] = run
        state.run_changed(run.key)
        if run.started is not None:
            state.run_clock.setdefault(run.key, self.now.boot)
        if run.closed:
            del state.runs[run.key]
            state.run_deadlines.pop(run.key, None)
            state.run_clock.pop(run.key, None)
            state.job_runs[run.job].remove(run.key)
            if not state.job_runs[run.job]:
                del state.job_runs[run.job]
        self.outcome.changes.append(PutRun(run))

    def put_step(self, step: Step) -> None:
        key = (RunKey(step.job, step.run), step.id)
        if step.ended is None:
            self.state.steps[key] = step
        else:
            self.state.steps.pop(key, None)
        self.outcome.changes.append(PutStep(step))

    def put_node(self, node: Node) -> None:
        state = self.state
        state.nodes[node.name] = node
        state.node_changed(node.name)
        state.use.setdefault(node.name, Use())
        state.presence.setdefault(node.name, Presence(self.now.boot))
        self.outcome.changes.append(PutNode(node))

    def put_reservation(self, reservation: Reservation) -> None:
        """Enter a reservation, or take out one that is closed."""
        state = self.state
        state.reservations_begun.discard(reservation.name)
        state.reservation_changed(reservation.name)
        if reservation.closed is None:
            state.reservations[reservation.name] = reservation
        else:
            del state.reservations[reservation.name]
        self.outcome.changes.append(PutReservation(reservation))

    def put_answer(self, uid: int, request_id: str, body: bytes) -> None:
        self.state.answers[uid, request_id] = body
        self.state.answer_ages[uid, request_id] = self.at
        self.outcome.changes.append(PutAnswer(uid, request_id, body, self.at))

    def note(self, kind: str, *, job: int = 0, node: str = "", uid: int = -1, text: str = "") -> None:
        """One line of history."""
        self.outcome.changes.append(Note(self.at, kind, JobId(job), NodeName(node), uid, text))

    def touch(self, node: NodeName, key: RunKey) -> None:
        """The wanted set of `node` changed in `key`: it is told when this event is done."""
        self.touched.setdefault(node, {})[key] = None

    def touch_all(self, run: Run) -> None:
        for part in run.parts:
            if part.phase is not NodePhase.CLEAN:
                self.touch(part.share.node, run.key)

    def send(self, session: int, message: ControllerMessage) -> None:
        self.outcome.sends.append(Send(session, message))

    def close(self, session: int, why: str) -> None:
        self.outcome.closes.append(Close(session, why))

    def ask_plan(self) -> None:
        self.outcome.plan = True
