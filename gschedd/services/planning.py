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
    Factors,
    HoldInput,
    NodeInput,
    PassInput,
    Plan,
    Policy,
    QueueInput,
    Start,
    Weights,
)
from gschedd.services import reservations, runs
from gschedd.state import State, StateChange

_KILL_MS = 60_000  # a run that should be over counts as held for so long from now


def node_inputs(state: State) -> tuple[NodeInput, ...]:
    """Every known node, in the order of their names; made anew only when one has changed."""
    if state.node_inputs is None:
        layout = state.layout
        state.node_inputs = tuple(
            NodeInput(
                name=name,
                inventory=node.inventory,
                partitions=layout.partitions_of(name),
                features=layout.features_of(name),
                switches=layout.domains_of(name),
                availability=_availability(state, name),
            )
            for name, node in sorted(state.nodes.items(), key=lambda item: natural(item[0]))
        )
    return state.node_inputs


def _availability(state: State, name: NodeName) -> Availability:
    if not state.connected(name) or state.presence[name].foreign:
        return Availability.AWAY
    return Availability.DRAINED if state.nodes[name].drained else Availability.UP


def pass_input(state: State, now: Now) -> PassInput:
    """The whole input of one pass."""
    at = Instant(now.wall)
    return PassInput(
        nodes=node_inputs(state),
        holds=tuple(_hold(run, at) for run in state.runs.values()),
        queue=_queue(state),
        policy=_policy(state, now),
        now=at,
        levels=state.layout.levels,
        reservations=reservations.inputs(state),
    )


def _policy(state: State, now: Now) -> Policy:
    scheduler = state.settings.scheduler
    return Policy(
        planned_starts=scheduler.planned_starts,
        weights=Weights(**structs.asdict(scheduler.weights)),
        shortest_first=scheduler.shortest_first,
        strict_order=state.coming_back(now),
    )


def _hold(run: Run, at: Instant) -> HoldInput:
    shares = tuple(part.share for part in run.parts if part.phase is not NodePhase.CLEAN)
    end: Instant | None = None
    if run.outcome is not None:
        end = Instant(at + _KILL_MS)
    elif run.time_limit_s:
        end = Instant((run.started or run.created) + 1000 * run.time_limit_s)
    return HoldInput(run.key, shares, end)


def _queue(state: State) -> tuple[QueueInput, ...]:
    """Jobs that may start now."""
    jobs = (state.jobs[job_id] for job_id in state.pending)
    return tuple(queue_input(state, job) for job in jobs if may_start(state, job))


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
    """Carry out what still fits, in plan order. After the first that does not, the rest waits for the next pass."""
    state = change.state
    state.waits = {wait.job: wait for wait in plan.waits if _waits(state, wait.job)}
    state.planned = {start.job: start for start in plan.planned if _waits(state, start.job)}
    for start in plan.starts:
        job = state.jobs.get(start.job)
        if job is None or not may_start(state, job):
            continue
        if not _still_fits(state, start) or reservations.in_the_way(state, job, start.shares, change.at):
            change.ask_plan()
            return
        runs.allocate(change, job, start)


def _waits(state: State, job_id: JobId) -> bool:
    job = state.jobs.get(job_id)
    return job is not None and job.state is JobState.PENDING


def _still_fits(state: State, start: Start) -> bool:
    return all(_share_fits(state, share) for share in start.shares)


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
    wait = state.waits.get(JobId(job.id))
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
