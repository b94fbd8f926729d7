"""Taking a job: who may, what is asked in the cluster's terms, whether it could ever run (reliability, details)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec.structs import replace

from gsched.config.settings import PartitionSettings
from gsched.errors import BadRequest, Impossible, NotFound, NotPermitted, TooLarge, Unavailable
from gsched.protocol.messages import SubmitJob, Submitted
from gsched.values.ids import JobId
from gsched.values.job import Job, JobPayload, JobSpec, MemoryRule, NodeNeed, Request
from gschedd.core.feasible import why_impossible
from gschedd.core.inputs import NodeInput
from gschedd.events import Call
from gschedd.services.planning import node_inputs
from gschedd.services.reservations import check_allowed
from gschedd.services.rights import is_admin
from gschedd.state import State, StateChange

_WIDEST = 1_000_000  # more nodes, tasks or cores than this is a slip of the finger
_REMEMBERED = 10_000  # requests found possible


def submit(change: StateChange, call: Call, request: SubmitJob) -> Submitted:
    """Take the job, or say why not; nothing of a refused one is kept. The id comes with the batch."""
    state = change.state
    job = proposed(change, call, request.spec)
    _check_size(state, request.payload)
    state.next_job_id = JobId(state.next_job_id + 1)
    change.put_job(job)
    change.put_payload(job.id, request.payload)
    change.note("job.submitted", job=job.id, uid=call.uid)
    if not request.spec.hold:
        change.ask_plan()
    return Submitted(job.id, job.request.spread_note)


def proposed(change: StateChange, call: Call, spec: JobSpec) -> Job:
    """The job that a spec would become, not entered anywhere. Raises what a submission is refused with."""
    state = change.state
    _check_who(state, call, spec)
    nodes = node_inputs(state)
    request = resolve(spec, state, nodes)
    reserved = check_allowed(state, spec, call.uid, call.user)
    if reserved is not None:
        inside = {hold.node for hold in reserved.holds}
        nodes = tuple(node for node in nodes if node.name in inside)
        _check_inside(request, nodes)
    else:
        _check_possible(state, request, nodes)
    return Job(
        id=state.next_job_id,
        uid=call.uid,
        gid=call.gid,
        user=call.user,
        spec=spec,
        request=request,
        submitted=change.at,
        eligible=change.at,
    )


def _check_who(state: State, call: Call, spec: JobSpec) -> None:
    cluster = state.settings.cluster
    if cluster.owner_uid is not None and call.uid != cluster.owner_uid:
        raise NotPermitted(
            f"this local cluster runs jobs of uid {cluster.owner_uid} only: user {call.user} (uid {call.uid}) may not"
        )
    if call.uid == 0 and not cluster.allow_root:
        raise NotPermitted("jobs of root are refused here: submit as a user, or set allow_root in [cluster]")
    if spec.nice < 0 and not is_admin(state, call.uid):
        raise NotPermitted(f"--nice {spec.nice} raises the priority: only an administrator may ask below 0")
    if len(state.pending) >= state.settings.limits.jobs:
        raise Unavailable(f"the queue holds {len(state.pending)} jobs, its limit is {state.settings.limits.jobs}")


def _check_size(state: State, payload: JobPayload) -> None:
    limits = state.settings.limits
    if len(payload.script) > limits.script_bytes:
        raise TooLarge(f"the script has {len(payload.script)} bytes: at most {limits.script_bytes} are taken")
    size = sum(len(k) + len(v) + 2 for k, v in payload.environment.items())
    if size > limits.environment_bytes:
        raise TooLarge(f"the environment has {size} bytes: at most {limits.environment_bytes} are taken; use --export")
    if not payload.script.startswith(b"#!"):
        raise BadRequest("the script must begin with #! and the path of an interpreter")


def _check_possible(state: State, request: Request, nodes: tuple[NodeInput, ...]) -> None:
    """Raise Impossible if the known nodes could never hold it. What they can is remembered while they stay the same."""
    if not nodes:
        return
    if state.possible_on is not nodes or len(state.possible) >= _REMEMBERED:
        state.possible_on, state.possible = nodes, set()
    if request not in state.possible:
        why = why_impossible(request, nodes)
        if why is not None:
            raise Impossible(why)
        state.possible.add(request)


def _check_inside(request: Request, nodes: tuple[NodeInput, ...]) -> None:
    """Raise Impossible if its reservation's nodes could never hold it."""
    why = why_impossible(request, nodes) if nodes else "no node of it is known any more"
    if why is not None:
        raise Impossible(f"inside reservation {request.reservation}: {why}")


def resolve(spec: JobSpec, state: State, nodes: Sequence[NodeInput]) -> Request:
    """Say in the cluster's terms what a spec asks: nodes, and what it takes of each. Raises BadRequest."""
    partition = _partition(spec, state)
    _check_numbers(spec)
    width, note = _width(spec, partition.name, nodes)
    if spec.ntasks is not None and spec.ntasks < width:
        raise BadRequest(
            f"{spec.ntasks} tasks cannot cover {width} nodes: ask -N {spec.ntasks} at most, or {width} tasks at least"
        )
    ntasks = spec.ntasks or width * (spec.ntasks_per_node or 1)
    per_node = spec.ntasks_per_node or math.ceil(ntasks / width)
    if spec.segment and width % spec.segment:
        raise BadRequest(f"{width} nodes cannot be cut into segments of {spec.segment}: ask a multiple")
    if ntasks > width * per_node:
        raise BadRequest(f"{ntasks} tasks do not fit on {width} nodes with {per_node} on each")
    _check_levels(spec, state)
    cpus_per_task = spec.cpus_per_task or 1
    return Request(
        partition=partition.name,
        nodes_min=width,
        nodes_max=max(width, spec.nodes_max or width),
        ntasks=ntasks,
        tasks_per_node=per_node,
        cpus_per_task=cpus_per_task,
        need=_need(spec, width, per_node * cpus_per_task),
        gpu_model=spec.gpu_model,
        nodelist=spec.nodelist,
        exclude=spec.exclude,
        constraint=spec.constraint,
        time_limit_s=_time_limit(spec, partition),
        level=spec.level,
        prefer_level=spec.prefer_level,
        any_topology=spec.any_topology,
        switches=spec.switches,
        switches_wait_s=spec.switches_wait_s,
        segment=spec.segment,
        reservation=spec.reservation,
        spread_note=note,
    )


def _check_levels(spec: JobSpec, state: State) -> None:
    known = state.layout.levels
    for option, level in (("--level", spec.level), ("--prefer-level", spec.prefer_level)):
        if level and level not in known:
            there = f"the topology's levels are {', '.join(known)}" if known else "this cluster has no topology"
            raise BadRequest(f"{option} {level}: no such level; {there}")


def _partition(spec: JobSpec, state: State) -> PartitionSettings:
    partitions = state.settings.partitions
    if not spec.partition:
        default = next((p for p in partitions if p.default), None)
        if default is None:
            raise BadRequest(f"no default partition here, name one with -p: {_names(partitions)}")
        return default
    found = state.partition(spec.partition)
    if found is None:
        raise NotFound(f"no partition {spec.partition!r}: there is {_names(partitions)}")
    return found


def _names(partitions: Sequence[PartitionSettings]) -> str:
    return ", ".join(p.name for p in partitions)


def _check_numbers(spec: JobSpec) -> None:
    counts = (
        ("nodes", spec.nodes_min, 1),
        ("nodes", spec.nodes_max, 1),
        ("tasks", spec.ntasks, 1),
        ("tasks per node", spec.ntasks_per_node, 1),
        ("cpus per task", spec.cpus_per_task, 1),
        ("GPUs", spec.gpus, 0),
        ("GPUs per node", spec.gpus_per_node, 0),
        ("MiB of memory", spec.mem_mib, 0),
        ("seconds of time", spec.time_limit_s, 0),
        ("switches", spec.switches, 0),
        ("seconds to wait for switches", spec.switches_wait_s, 0),
        ("nodes in a segment", spec.segment, 0),
    )
    for what, value, least in counts:
        most = 2**40 if what.startswith(("MiB", "seconds")) else _WIDEST
        if value is not None and not least <= value <= most:
            raise BadRequest(f"{value} {what} asked: from {least} to {most} are possible")
    if spec.nodes_max is not None and spec.nodes_max < (spec.nodes_min or 1):
        raise BadRequest(f"-N {spec.nodes_min}-{spec.nodes_max}: the most is below the least")


def _width(spec: JobSpec, partition: str, nodes: Sequence[NodeInput]) -> tuple[int, str]:
    """How many nodes, at least; and a note when -G could not be put on the fewest one would think of."""
    gpus, per_node = spec.gpus, spec.gpus_per_node
    if spec.nodes_min is not None:
        _check_gpus_divide(gpus, per_node, spec.nodes_min)
        return spec.nodes_min, ""
    if gpus and per_node:
        if gpus % per_node:
            raise BadRequest(f"{gpus} GPUs in all and {per_node} on each node: the first must be a multiple")
        return max(gpus // per_node, len(spec.nodelist)), ""
    if gpus:
        return _fewest_for_gpus(spec, gpus, partition, _members(nodes, partition))
    if spec.nodelist:
        return len(spec.nodelist), ""
    if spec.ntasks and spec.ntasks_per_node:
        return math.ceil(spec.ntasks / spec.ntasks_per_node), ""
    if spec.ntasks:
        most = max((node.inventory.cpus for node in _members(nodes, partition)), default=0) // (spec.cpus_per_task or 1)
        return (math.ceil(spec.ntasks / most) if most else 1), ""
    return 1, ""


def _members(nodes: Sequence[NodeInput], partition: str) -> list[NodeInput]:
    return [node for node in nodes if partition in node.partitions]


def _check_gpus_divide(gpus: int | None, per_node: int | None, nodes: int) -> None:
    if gpus and per_node and gpus != nodes * per_node:
        raise BadRequest(f"{gpus} GPUs in all do not agree with {nodes} nodes of {per_node}: leave one of them out")
    if gpus and gpus % nodes:
        raise BadRequest(f"{gpus} GPUs cannot be divided evenly over {nodes} nodes: ask a multiple of {nodes}")


def _fewest_for_gpus(spec: JobSpec, gpus: int, partition: str, here: Sequence[NodeInput]) -> tuple[int, str]:
    """-G without -N takes the fewest nodes; a wider spread only if nothing better can come, and it is said (S6)."""
    model = spec.gpu_model.lower()
    counts = [sum(model in gpu.model.lower() for gpu in node.inventory.gpus) for node in here]
    largest = max(counts, default=0)
    least = max(1, len(spec.nodelist))
    if not largest:
        return least, ""  # refused as impossible, or no node is known yet
    if gpus > sum(counts):
        kind = f" of model {spec.gpu_model}" if model else ""
        raise Impossible(f"{gpus} GPUs{kind} asked: partition {partition} has {sum(counts)} on {len(here)} nodes")
    fewest = max(least, math.ceil(gpus / largest))
    for width in range(fewest, len(here) + 1):
        if gpus % width == 0:
            if width == 1:
                return 1, ""
            return width, (
                f"{gpus} GPUs are asked: no node in partition {partition} has more than {largest}"
                f"{' of that model' if model else ''}, so the job gets {width} nodes with {gpus // width} each"
            )
    below = gpus // largest * largest
    raise BadRequest(
        f"{gpus} GPUs asked: they cannot be divided evenly over {fewest} to {len(here)} nodes with up to {largest}, "
        f"and every node of a job gets the same number; ask for {below} or {below + largest}"
    )


def _need(spec: JobSpec, width: int, cpus: int) -> NodeNeed:
    gpus = spec.gpus_per_node if spec.gpus_per_node is not None else (spec.gpus or 0) // width
    if spec.mem_mib is None:
        return NodeNeed(cpus, gpus, MemoryRule.SHARE)
    if spec.mem_mib == 0:
        return NodeNeed(cpus, gpus, MemoryRule.ALL)
    return NodeNeed(cpus, gpus, MemoryRule.EXACT, spec.mem_mib)


def _time_limit(spec: JobSpec, partition: PartitionSettings) -> int:
    asked = spec.time_limit_s
    if asked is None:
        return partition.default_time_s or partition.max_time_s
    if partition.max_time_s and (asked == 0 or asked > partition.max_time_s):
        what = "no limit" if asked == 0 else f"{asked} s"
        raise BadRequest(f"a time of {what} asked: partition {partition.name} allows {partition.max_time_s} s at most")
    return asked


def hold(spec: JobSpec, held: bool) -> JobSpec:
    """The spec with the hold set or lifted."""
    return replace(spec, hold=held)
