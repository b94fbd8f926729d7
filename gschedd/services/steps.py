"""Steps: opened by grun inside a running job; their output goes from the nodes to grun, by ticket."""

from __future__ import annotations

from msgspec.structs import replace

from gsched.auth.tickets import Ticket, node_key, sign
from gsched.errors import BadRequest, Conflict, NotFound, NotPermitted
from gsched.protocol.link import StepReport
from gsched.protocol.messages import CreateStep, StepCreated, StepNode
from gsched.values.ids import Instant, RunKey, StepId
from gsched.values.run import NodePhase, Run, Step
from gsched.values.states import JobState
from gschedd.state import StateChange

_TICKET_MS = 60_000


def create_step(change: StateChange, request: CreateStep, uid: int, secret: bytes, ca_pem: bytes) -> StepCreated:
    """Give a step its id and a ticket for each of its nodes. Errors: not_found, not_permitted, conflict, bad."""
    state = change.state
    job = state.jobs.get(request.job)
    if job is None:
        raise NotFound(f"job {request.job}: not known")
    if job.uid != uid:
        raise NotPermitted(f"job {job.id} belongs to {job.user}: steps are its owner's to start")
    run = state.runs.get(RunKey(job.id, job.run))
    if job.state is not JobState.RUNNING or run is None or run.outcome is not None:
        raise Conflict(f"job {job.id} is {job.state.value}: steps start in a RUNNING job only")
    width = request.nnodes or len(run.parts)
    if not 1 <= width <= len(run.parts):
        raise BadRequest(f"{width} nodes asked for the step: job {job.id} has {len(run.parts)}")
    if request.ntasks < width:
        raise BadRequest(f"{request.ntasks} tasks cannot cover {width} nodes: ask -N {request.ntasks}, or more tasks")
    step = run.next_step
    parts = run.parts[:width]
    change.put_run(replace(run, next_step=StepId(step + 1)))
    change.put_step(
        Step(
            job=job.id,
            run=run.no,
            id=step,
            name=request.name,
            ntasks=request.ntasks,
            nodes=tuple(part.share.node for part in parts),
            cpus=sum(part.share.cpus for part in parts),
            started=change.at,
        )
    )
    return StepCreated(
        step=step,
        run=run.no,
        nodes=tuple(_step_node(change, run, index, step, uid, request.ntasks, secret) for index in range(width)),
        ca_pem=ca_pem,
        job_ntasks=job.request.ntasks,
        job_tasks_per_node=job.request.tasks_per_node,
    )


def _step_node(
    change: StateChange, run: Run, index: int, step: StepId, uid: int, ntasks: int, secret: bytes
) -> StepNode:
    share = run.parts[index].share
    node = change.state.nodes[share.node]
    ticket = Ticket(run.job, run.no, step, share.node, uid, Instant(change.at + _TICKET_MS), ntasks)
    uuids = {gpu.index: gpu.uuid for gpu in node.inventory.gpus}
    return StepNode(
        node=share.node,
        address=node.address,
        ticket=sign(node_key(secret, share.node), ticket),
        share_gpus=tuple(uuids[i] for i in share.gpu_indices),
        cpus=share.cpus,
    )


def on_step_report(change: StateChange, report: StepReport) -> None:
    """A step's tasks have ended on one node; the step ends with the last of its nodes, its code is the worst."""
    step = change.state.steps.get((report.key, report.step))
    if step is None or report.node in step.done:
        return
    done = (*step.done, report.node)
    worse = (report.exit_signal, report.exit_code) > (step.exit_signal, step.exit_code)
    step = replace(
        step,
        done=done,
        exit_code=report.exit_code if worse else step.exit_code,
        exit_signal=report.exit_signal if worse else step.exit_signal,
        ended=report.at if set(done) >= set(step.nodes) else None,
    )
    change.put_step(step)


def end_steps(change: StateChange, run: Run) -> None:
    """A closed run has no open steps: those whose end was not reported ended with it."""
    for key, step in list(change.state.steps.items()):
        if key[0] == run.key:
            killed = NodePhase.CLEAN in {part.phase for part in run.parts} and not step.done
            change.put_step(replace(step, ended=run.ended or change.at, exit_signal=9 if killed else step.exit_signal))
