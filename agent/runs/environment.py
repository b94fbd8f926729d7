"""The environment of a job on one node, computed from what the node was told. Pure.

The user's own variables come first; whatever names the allocation is ours and wins. Each of ours is there twice, as
GSCHED_NAME and, where Slurm has it, as SLURM_NAME. What a step adds is in `gsched/spec/step_environment.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gsched.protocol.link import LaunchSpec
from gsched.spec.nodelists import fold
from gsched.spec.step_environment import NO_GPUS, both_names, tasks_per_node_text
from gsched.spec.step_layout import Room, block_layout
from gsched.values.ids import NodeName, RunKey
from gsched.values.job import DEFAULT_ACCOUNT

DEFAULT_PATH: Final = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"

# What the submitter's environment may not say: it would name another allocation.
_OURS: Final = ("SLURM_", "SLURMD_", "GSCHED_")
_OURS_TOO: Final = frozenset({"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"})

# What only the node itself knows, so that it wins over what a step was told by its grun.
_NODES_OWN: Final = frozenset(
    {
        "GSCHED_SOCKET",
        "GSCHED_NODE",
        "GSCHED_RUN_TOKEN",
        "CUDA_DEVICE_ORDER",
        "NVIDIA_VISIBLE_DEVICES",
        "SLURMD_NODENAME",
        *both_names(dict.fromkeys(("CPUS_ON_NODE", "GPUS_ON_NODE", "JOB_GPUS", "STEP_GPUS"), "")),
    }
)


def job_environment(key: RunKey, launch: LaunchSpec, node: NodeName, socket: str, token: str) -> dict[str, str]:
    """All variables of the script, or (on nodes past the first) what steps there may be told of.

    socket: the agent's, where commands inside the job turn to. token: marks the run's processes on this node.
    """
    own = {"PATH": DEFAULT_PATH, "USER": launch.user, "LOGNAME": launch.user}
    users = {name: value for name, value in launch.environment.items() if not is_ours(name)}
    gsched = {
        "GSCHED_RUN": str(key.run),
        "GSCHED_RUN_KEY": str(key),
        "GSCHED_RUN_TOKEN": token,
        "GSCHED_SOCKET": socket,
        "GSCHED_NODE": node,
        "GSCHED_PORT": str(launch.port),
        "GSCHED_MASTER_PORT": str(launch.master_port),
    }
    slurm = both_names({**_about_job(key, launch), **_about_tasks(launch), **_about_node(launch)})
    alone = {"SLURMD_NODENAME": node}  # Slurm's name has no equal of ours but GSCHED_NODE
    return {**own, **users, **slurm, **alone, **_devices(launch), **_rendezvous(launch), **gsched}


def is_ours(name: str) -> bool:
    """Whether a variable names an allocation, so that a submitter's value never reaches the job."""
    return name.startswith(_OURS) or name in _OURS_TOO


def nodes_own(environment: Mapping[str, str]) -> dict[str, str]:
    """The part of job_environment that a step's tasks get from the node, whatever they were told."""
    return {name: value for name, value in environment.items() if name in _NODES_OWN}


def _about_job(key: RunKey, launch: LaunchSpec) -> dict[str, str]:
    nodes = fold(launch.nodes)
    variables = {
        "JOB_ID": str(key.job),
        "JOBID": str(key.job),
        "JOB_NAME": launch.job_name,
        "JOB_USER": launch.user,
        "JOB_UID": str(launch.uid),
        "JOB_GID": str(launch.gid),
        "JOB_ACCOUNT": DEFAULT_ACCOUNT,
        "JOB_QOS": "normal",
        "JOB_PARTITION": launch.partition,
        "CLUSTER_NAME": launch.cluster,
        "SUBMIT_DIR": launch.submit_dir or launch.chdir,
        "SUBMIT_HOST": launch.submit_host,
        "JOB_NODELIST": nodes,
        "NODELIST": nodes,
        "JOB_NUM_NODES": str(len(launch.nodes)),
        "NNODES": str(len(launch.nodes)),
        "LAUNCH_NODE_IPADDR": launch.addresses[0],
    }
    if launch.restarts:
        variables["RESTART_COUNT"] = str(launch.restarts)
    return variables


def _about_tasks(launch: LaunchSpec) -> dict[str, str]:
    room = [Room(node=name, cpus=launch.tasks_per_node) for name in launch.nodes]
    counts = [part.count for part in block_layout(room, min(launch.ntasks, len(room) * launch.tasks_per_node))]
    variables = {
        "NTASKS": str(launch.ntasks),
        "NPROCS": str(launch.ntasks),
        "TASKS_PER_NODE": tasks_per_node_text(counts),
        "JOB_CPUS_PER_NODE": tasks_per_node_text([launch.cpus] * len(launch.nodes)),
        "MEM_PER_NODE": str(launch.mem_mib),
    }
    if launch.ntasks_per_node_asked is not None:
        variables["NTASKS_PER_NODE"] = str(launch.ntasks_per_node_asked)
    if launch.cpus_per_task_asked:
        variables["CPUS_PER_TASK"] = str(launch.cpus_per_task)
    if launch.gpus_asked is not None:
        variables["GPUS"] = str(launch.gpus_asked)
    if launch.gpus_per_node_asked is not None:
        variables["GPUS_PER_NODE"] = str(launch.gpus_per_node_asked)
    return variables


def _about_node(launch: LaunchSpec) -> dict[str, str]:
    variables = {
        "NODEID": str(launch.node_index),
        "CPUS_ON_NODE": str(launch.cpus),
        "GPUS_ON_NODE": str(len(launch.gpu_uuids)),
    }
    if launch.gpu_indices:
        # Of the node, not of the job: monitoring maps them to devices.
        variables["JOB_GPUS"] = variables["STEP_GPUS"] = ",".join(str(index) for index in launch.gpu_indices)
    return variables


def _devices(launch: LaunchSpec) -> dict[str, str]:
    uuids = ",".join(launch.gpu_uuids)
    return {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": uuids or NO_GPUS,
        "NVIDIA_VISIBLE_DEVICES": uuids or "void",
    }


def _rendezvous(launch: LaunchSpec) -> dict[str, str]:
    return {"MASTER_ADDR": launch.addresses[0], "MASTER_PORT": str(launch.master_port)}
