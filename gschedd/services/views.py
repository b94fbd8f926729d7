"""What is shown of the state: rows for gqueue and ginfo, everything of one job. Pages, never more than the limit."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from gsched import __version__
from gsched.clock import Now
from gsched.errors import NotFound
from gsched.protocol.messages import (
    JobPage,
    JobRow,
    JobShown,
    ListJobs,
    ListNodes,
    NodePage,
    NodeRow,
    PartitionRow,
    Pong,
    ShowJob,
)
from gsched.values.ids import Instant, JobId, NodeName, RunKey
from gsched.values.job import Job, MemoryRule, NodeNeed
from gsched.values.node import Node, NodeState
from gsched.values.states import JobState
from gschedd.services.planning import natural, reason_of
from gschedd.services.rights import is_admin
from gschedd.state import State, Use

_PAGE_MAX = 1000
_NEVER = Instant(-1)


def list_jobs(state: State, request: ListJobs, now: Now) -> JobPage:
    """One page of jobs in id order. Asking for one id that is not known is an error, as with squeue."""
    limit = max(1, min(request.limit, _PAGE_MAX))
    at = Instant(now.wall)
    if request.jobs:
        missing = tuple(job for job in request.jobs if job not in state.jobs)
        if missing and len(request.jobs) == 1:
            raise NotFound(f"job {request.jobs[0]}: not in the queue")
        wanted: Iterable[JobId] = sorted({job for job in request.jobs if job in state.jobs and job > request.after})
    else:
        missing = ()
        ids = state.job_order
        wanted = (ids[i] for i in range(bisect_right(ids, request.after), len(ids)))
    rows: list[JobRow] = []
    for job_id in wanted:
        job = state.jobs[job_id]
        if not _selected(job, request):
            continue
        if len(rows) == limit:
            return JobPage(tuple(rows), True, at, missing)
        rows.append(job_row(state, job, now.boot))
    return JobPage(tuple(rows), False, at, missing)


def _selected(job: Job, request: ListJobs) -> bool:
    if request.user and job.user != request.user:
        return False
    if request.states:
        return job.state in request.states
    return bool(request.jobs) or request.all_states or not job.state.final


def job_row(state: State, job: Job, boot: int) -> JobRow:
    """One line of gqueue."""
    request = job.request
    reason, detail = (job.reason, job.detail)
    if job.state is JobState.PENDING:
        reason, detail = reason_of(state, job)
    planned = state.planned.get(job.id)
    nnodes = len(job.nodes) or request.nodes_min
    return JobRow(
        id=job.id,
        partition=request.partition,
        name=job.spec.name,
        user=job.user,
        uid=job.uid,
        state=job.state,
        reason=reason.value,
        detail=detail,
        submitted=job.submitted,
        started=job.started if job.started is not None else _NEVER,
        ended=job.ended if job.ended is not None else _NEVER,
        planned=planned.at if planned is not None else _NEVER,
        elapsed_s=_elapsed_s(state, job, boot),
        time_limit_s=request.time_limit_s,
        nodes=job.nodes,
        nnodes=nnodes,
        ntasks=request.ntasks,
        cpus=request.need.cpus * nnodes,
        mem_mib=_memory_asked(request.need),
        gpus=request.need.gpus * nnodes,
        gpu_model=request.gpu_model,
        restarts=job.restarts,
        exit_code=job.exit_code,
        exit_signal=job.exit_signal,
        chdir=job.spec.chdir,
        planned_nodes=planned.nodes if planned is not None else (),
    )


def _memory_asked(need: NodeNeed) -> int:
    if need.mem_rule is MemoryRule.EXACT:
        return need.mem_mib
    return 0 if need.mem_rule is MemoryRule.ALL else -1


def _elapsed_s(state: State, job: Job, boot: int) -> int:
    """As measured when it has ended; counted here while it runs, so that no step of the wall clock shows."""
    return state.elapsed_s(RunKey(job.id, job.run), boot) if job.state is JobState.RUNNING else job.elapsed_s


def show_job(state: State, request: ShowJob, uid: int, now: Now) -> JobShown:
    """Everything of one job; its script for its owner and administrators only."""
    job = state.jobs.get(request.job)
    if job is None:
        raise NotFound(f"job {request.job}: not in the queue; `gacct -j {request.job}` looks further back")
    at = Instant(now.wall)
    if job.state is JobState.PENDING:
        job = _with_reason(state, job)
    planned = state.planned.get(job.id)
    payload = state.payloads.get(job.id) if job.uid == uid or is_admin(state, uid) else None
    return JobShown(
        job=job,
        runs=tuple(state.live_runs(job.id)),
        now=at,
        planned=planned.at if planned is not None else None,
        script=payload.script if payload is not None else None,
    )


def _with_reason(state: State, job: Job) -> Job:
    reason, detail = reason_of(state, job)
    return replace(job, reason=reason, detail=detail)


def list_nodes(state: State, request: ListNodes, now: Now) -> NodePage:
    """Every node, or those named, in name order."""
    names: Sequence[NodeName] = request.nodes or sorted(state.nodes, key=natural)
    missing = tuple(name for name in names if name not in state.nodes)
    return NodePage(
        rows=tuple(_node_row(state, state.nodes[name], now) for name in names if name in state.nodes),
        partitions=tuple(
            PartitionRow(
                name=p.name,
                default=p.default,
                max_time_s=p.max_time_s,
                nodes=tuple(sorted((n for n in state.nodes if not p.nodes or n in p.nodes), key=natural)),
            )
            for p in state.settings.partitions
        ),
        missing=missing,
    )


def _node_row(state: State, node: Node, now: Now) -> NodeRow:
    use = state.use[node.name]
    return NodeRow(
        node=node,
        state=node_state(state, node, use, Instant(now.wall)),
        responding=state.responding(node.name, now),
        partitions=state.layout.partitions_of(node.name),
        features=state.layout.features_of(node.name),
        switches=state.layout.switches_of(node.name),
        cpus_used=use.cpus,
        mem_used_mib=use.mem_mib,
        gpus_used=use.gpus,
        jobs=tuple(sorted({key.job for key in use.runs})),
    )


def node_state(state: State, node: Node, use: Use, now: Instant) -> NodeState:
    """Slurm's word for the node."""
    if node.lost_at is not None:
        return NodeState.DOWN
    if node.drained:
        return NodeState.DRAINING if use.runs else NodeState.DRAINED
    if not state.presence[node.name].reconciled:
        return NodeState.UNKNOWN
    if not use.runs:
        return _reserved_or_idle(state, node.name, now)
    if all(state.runs[key].outcome is not None for key in use.runs):
        return NodeState.COMPLETING
    gpus = (1 << len(node.inventory.gpus)) - 1
    full = use.cpus >= node.inventory.cpus or (gpus and use.gpus & gpus == gpus)
    return NodeState.ALLOCATED if full else NodeState.MIXED


def _reserved_or_idle(state: State, name: NodeName, now: Instant) -> NodeState:
    whole = [
        reservation.maint
        for reservation in state.reservations.values()
        if reservation.active(now) and any(hold.node == name and hold.gpus < 0 for hold in reservation.holds)
    ]
    if not whole:
        return NodeState.IDLE
    return NodeState.MAINT if any(whole) else NodeState.RESERVED


def ping(state: State, now: Now) -> Pong:
    """A sign of life, with counts."""
    return Pong(
        cluster=state.settings.cluster.name,
        version=__version__,
        term=state.term,
        nodes_known=len(state.nodes),
        nodes_up=sum(state.connected(name) for name in state.nodes),
        jobs=len(state.jobs) - len(state.recent),
        now=Instant(now.wall),
    )
