"""What a pass is given, and what becomes of its plan: the checked commit."""

from __future__ import annotations

from msgspec import structs

from gsched.clock import Now
from gsched.values.ids import Instant, JobId, NodeName
from gsched.values.job import Job
from gsched.values.node import Inventory
from gsched.values.run import NodePhase, NodeShare, Run
from gsched.values.states import JobState, Reason
from gschedd.core.inputs import (
    Availability,
    BoardChange,
    Factors,
    HoldGone,
    HoldInput,
    JobGone,
    NodeInput,
    PassInput,
    PassLog,
    Plan,
    Policy,
    QueueInput,
    Start,
    Weights,
)
from gschedd.services import reservations, runs
from gschedd.services.moves import note_drop, note_moves
from gschedd.state import State, StateChange


def node_inputs(state: State) -> tuple[NodeInput, ...]:
    """Every known node, in the order of their names; only those that have changed are made anew."""
    if state.node_inputs is None:
        if len(state.node_order) != len(state.nodes):  # a known node is never forgotten
            state.node_order = tuple(sorted(state.nodes, key=natural))
        state.node_inputs = tuple(node_input(state, name) for name in state.node_order)
    return state.node_inputs


def node_input(state: State, name: NodeName) -> NodeInput:
    """What a pass is told of a node."""
    made = state.node_input.get(name)
    if made is None:
        layout = state.layout
        made = state.node_input[name] = NodeInput(
            name=name,
            inventory=state.nodes[name].inventory,
            partitions=layout.partitions_of(name),
            features=layout.features_of(name),
            switches=layout.domains_of(name),
            availability=_availability(state, name),
        )
    return made


def _availability(state: State, name: NodeName) -> Availability:
    if not state.connected(name) or state.presence[name].foreign:
        return Availability.AWAY
    return Availability.DRAINED if state.nodes[name].drained else Availability.UP


def pass_input(state: State, now: Now) -> PassInput:
    """The whole input of one pass."""
    return PassInput(
        nodes=node_inputs(state),
        holds=tuple(_hold(run) for run in state.runs.values()),
        queue=_queue(state),
        policy=_policy(state, now),
        now=Instant(now.wall),
        levels=state.layout.levels,
        reservations=reservations.inputs(state),
        planned=tuple(state.planned.values()),
    )


def pass_log(state: State, now: Now) -> PassLog:
    """The input of one pass for whoever was told all that changed before; what has changed since is then forgotten."""
    unseen = state.take_unseen()
    changes: list[BoardChange] = [node_input(state, name) for name in unseen.nodes]
    for key in unseen.runs:
        run = state.runs.get(key)
        changes.append(HoldGone(key) if run is None else _hold(run))
    for job_id in unseen.jobs:
        job = state.jobs.get(job_id)
        waits = job is not None and may_start(state, job)
        changes.append(queue_input(state, job) if job is not None and waits else JobGone(job_id))
    return PassLog(
        changes=tuple(changes),
        policy=_policy(state, now),
        now=Instant(now.wall),
        levels=state.layout.levels,
        reservations=reservations.inputs(state),
        planned=tuple(state.planned.values()),
    )


def _policy(state: State, now: Now) -> Policy:
    scheduler = state.settings.scheduler
    return Policy(
        planned_starts=scheduler.planned_starts,
        weights=Weights(**structs.asdict(scheduler.weights)),
        shortest_first=scheduler.shortest_first,
        strict_order=state.coming_back(now),
    )


def _hold(run: Run) -> HoldInput:
    """What a pass is told of a live run. An end that was decided has passed: nobody knows when it will be clean."""
    shares = tuple(part.share for part in run.parts if part.phase is not NodePhase.CLEAN)
    end: Instant | None = None
    if run.outcome is not None:
        end = run.ended or run.created
    elif run.time_limit_s:
        end = Instant((run.started or run.created) + 1000 * run.time_limit_s)
    return HoldInput(run.key, shares, end, started=run.started)


def _queue(state: State) -> tuple[QueueInput, ...]:
    """Jobs that may start now; only those that have changed are made anew."""
    made = state.queue_inputs
    for job_id in state.queue_stale:
        job = state.jobs.get(job_id)
        if job is not None and may_start(state, job):
            made[job_id] = queue_input(state, job)
        else:
            made.pop(job_id, None)
    state.queue_stale.clear()
    return tuple(made[job_id] for job_id in state.pending if job_id in made)


def queue_input(state: State, job: Job) -> QueueInput:
    """What a pass is told of a job."""
    return QueueInput(
        job=job.id,
        request=job.request,
        avoid=job.avoid if job.id in state.avoiding else (),
        factors=Factors(eligible=job.eligible, nice=job.spec.nice),
        uid=job.uid,
    )


def may_start(state: State, job: Job) -> bool:
    """Whether nothing but room stands between the job and its start."""
    return (
        job.state is JobState.PENDING
        and not job.spec.hold
        and (not job.request.reservation or job.request.reservation in state.reservations)
        and job.id not in state.backing_off
        and not runs.barred(state.live_runs(job.id))
    )


def take_plan(change: StateChange, plan: Plan) -> None:
    """Carry out what still fits, in plan order, each start whole or not at all.

    After the first that is dropped, those that would pass a job which waits are left for the next pass.
    """
    state = change.state
    state.waits = plan.waits
    state.moved_on.clear()
    planned = {start.job: start for start in plan.planned if _waits(state, start.job)}
    note_moves(change, planned)
    state.noted_drops &= {start.job for start in plan.starts}
    state.planned = planned
    dropped = False
    for start in plan.starts:
        job = state.jobs.get(start.job)
        if job is None or not may_start(state, job):
            continue
        if dropped and not start.in_order:
            continue
        if (
            _is_what_was_asked(job, start)
            and _still_fits(state, start)
            and not reservations.in_the_way(state, job, start.shares, change.at)
        ):
            runs.allocate(change, job, start)
        else:
            note_drop(change, job.id)
            dropped = True
    if dropped:
        change.ask_plan()


def _waits(state: State, job_id: JobId) -> bool:
    job = state.jobs.get(job_id)
    return job is not None and job.state is JobState.PENDING


def _still_fits(state: State, start: Start) -> bool:
    return all(_share_fits(state, share) for share in start.shares)


def _is_what_was_asked(job: Job, start: Start) -> bool:
    """Whether the start is one for the job as it is now: its request may be another than the one that was planned."""
    request, names = job.request, {share.node for share in start.shares}
    most = max(request.nodes_max, len(set(request.nodelist)))
    return (
        request.nodes_min <= len(names) <= most
        and names.issuperset(request.nodelist)
        and names.isdisjoint(request.exclude)
        and all(share.cpus == request.need.cpus for share in start.shares)
        and all(share.gpus.bit_count() == request.need.gpus or request.need.mig_profile for share in start.shares)
    )


def _share_fits(state: State, share: NodeShare) -> bool:
    node = state.nodes.get(share.node)
    if node is None or _availability(state, share.node) is not Availability.UP:
        return False
    use, inventory = state.use[share.node], node.inventory
    return (
        not use.gpus & share.gpus
        and not share.gpus & ~_all_gpus(inventory)
        and use.cpus + share.cpus <= inventory.cpus
        and use.mem_mib + share.mem_mib <= inventory.memory_mib
        and len(use.ports) <= inventory.port_last - inventory.port_first
    )


def _all_gpus(inventory: Inventory) -> int:
    mask = 0
    for gpu in inventory.gpus:
        mask |= 1 << gpu.index
    return mask


def reason_of(state: State, job: Job) -> tuple[Reason, str]:
    """Why a pending job waits, as of the last pass."""
    if job.spec.hold:
        return (job.reason, job.detail) if job.reason is Reason.HELD_ADMIN else (Reason.HELD_USER, "")
    if job.request.reservation and job.request.reservation not in state.reservations:
        return Reason.RESERVATION, f"reservation {job.request.reservation} is over or was deleted"
    if runs.barred(state.live_runs(job.id)):
        kept = job.reason in (Reason.RUN_LOST, Reason.LAUNCH_FAILURE)
        return (job.reason, job.detail) if kept else (Reason.CLEANING, "its last run is being cleaned up")
    if job.id in state.backing_off:
        return Reason.LAUNCH_FAILURE, job.detail
    wait = None if job.id in state.moved_on else state.waits.of(JobId(job.id))
    if wait is not None:
        return wait.reason, wait.detail
    return (Reason.NONE, "") if state.nodes else (Reason.NODES_UNKNOWN, "no node has joined yet")


def natural(name: str) -> tuple[object, ...]:
    """Sort key that puts n2 before n10."""
    parts: list[object] = []
    digits = ""
    word = ""
    for char in name:
        if char.isdigit():
            digits += char
            continue
        if digits:
            parts += [word, int(digits)]
            word = digits = ""
        word += char
    return (*parts, word, int(digits) if digits else -1)
