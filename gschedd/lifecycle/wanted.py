"""What the controller wants of a run on each of its nodes, derived from its state alone (reliability rule 5)."""

from __future__ import annotations

from gsched.protocol.link import LaunchSpec, WantedRun
from gsched.values.ids import NodeName
from gsched.values.job import Job, JobPayload, MemoryRule
from gsched.values.node import Node
from gsched.values.run import NodePhase, Run, WantedPhase


def wanted_phase(run: Run, index: int) -> WantedPhase | None:
    """The phase wanted on the run's index-th node; None = the run is over there and forgotten."""
    if run.parts[index].phase is NodePhase.CLEAN:
        return None
    if run.outcome is not None:
        return WantedPhase.STOP
    if index == 0:
        return run.wanted
    return WantedPhase.START if run.others_started else WantedPhase.PREPARE


def wanted_run(run: Run, index: int, launch: LaunchSpec | None) -> WantedRun | None:
    """The entry of a node's wanted set; `launch` is told until the node has confirmed."""
    phase = wanted_phase(run, index)
    if phase is None:
        return None
    return WantedRun(key=run.key, phase=phase, signals=run.signals, grace_s=run.grace_s, launch=launch)


def needs_launch(run: Run, index: int) -> bool:
    """Whether the node must still be told how to launch the run."""
    return run.parts[index].phase is NodePhase.ORDERED and run.outcome is None


def told_to_start(run: Run) -> bool:
    """Whether something of the user's may run, or have run, on some node of it."""
    return run.wanted is not WantedPhase.PREPARE or run.others_started


def launch_spec(
    job: Job, payload: JobPayload, run: Run, index: int, nodes: dict[NodeName, Node], cluster: str
) -> LaunchSpec:
    """All that one node needs to prepare and start its part of a run."""
    share = run.parts[index].share
    spec, request = job.spec, job.request
    gpus = {gpu.index: gpu.uuid for gpu in nodes[share.node].inventory.gpus}
    first = index == 0
    return LaunchSpec(
        uid=job.uid,
        gid=job.gid,
        user=job.user,
        job_name=spec.name,
        cluster=cluster,
        partition=request.partition,
        node_index=index,
        nodes=tuple(part.share.node for part in run.parts),
        addresses=tuple(_host(nodes[part.share.node].address) for part in run.parts),
        cpus=share.cpus,
        mem_mib=share.mem_mib,
        gpu_uuids=tuple(gpus[i] for i in share.gpu_indices),
        gpu_indices=share.gpu_indices,
        port=share.port,
        master_port=run.parts[0].share.port,
        ntasks=request.ntasks,
        tasks_per_node=request.tasks_per_node,
        ntasks_per_node_asked=spec.ntasks_per_node,
        cpus_per_task=request.cpus_per_task,
        cpus_per_task_asked=spec.cpus_per_task is not None,
        gpus_per_node_asked=spec.gpus_per_node,
        gpus_asked=spec.gpus,
        mem_asked_mib=request.need.mem_mib if request.need.mem_rule is MemoryRule.EXACT else None,
        time_limit_s=run.time_limit_s,
        grace_s=run.grace_s,
        restarts=job.restarts,
        script=payload.script if first else b"",
        args=payload.args if first else (),
        environment=payload.environment,
        chdir=spec.chdir,
        output=spec.output,
        error=spec.error,
        open_append=spec.open_append,
        umask=spec.umask,
        submit_dir=spec.chdir,
        submit_host=spec.submit_host,
    )


def _host(address: str) -> str:
    return address.rpartition(":")[0].strip("[]")
