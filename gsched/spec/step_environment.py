"""The variables that tell the tasks of a step who they are, under Slurm's names and ours.

grun makes them (it knows the layout); what only the node knows (its socket, the GPUs' indices, a task's pid) the
node's supervisor adds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from gsched.errors import BadRequest
from gsched.spec.step_layout import NodeTasks
from gsched.values.ids import StepId

NO_GPUS = "none"  # CUDA_VISIBLE_DEVICES of a task without GPUs: an empty value would show all of them


def both_names(variables: Mapping[str, str]) -> dict[str, str]:
    """Each variable as GSCHED_NAME and SLURM_NAME."""
    return {f"{prefix}_{name}": value for name, value in variables.items() for prefix in ("GSCHED", "SLURM")}


def tasks_per_node_text(counts: Sequence[int]) -> str:
    """Slurm's short form: [2, 2, 2, 1] gives "2(x3),1"."""

    def parts() -> Iterator[str]:
        for count, group in groupby(counts):
            times = len(list(group))
            yield f"{count}(x{times})" if times > 1 else str(count)

    return ",".join(parts())


def step_variables(
    step: StepId, layout: Sequence[NodeTasks], nodelist: str, cpus_per_task: int | None
) -> dict[str, str]:
    """What all tasks of a step share. nodelist: the step's nodes in short form; cpus_per_task: None = not asked."""
    counts = [part.count for part in layout]
    ntasks = str(sum(counts))
    per_node = tasks_per_node_text(counts)
    variables = {
        "STEP_ID": str(step),
        "STEPID": str(step),
        "STEP_NODELIST": nodelist,
        "STEP_NUM_NODES": str(len(layout)),
        "STEP_NUM_TASKS": ntasks,
        "STEP_TASKS_PER_NODE": per_node,
        "NNODES": str(len(layout)),
        "NTASKS": ntasks,
        "NPROCS": ntasks,
        "TASKS_PER_NODE": per_node,
    }
    if cpus_per_task is not None:
        variables["CPUS_PER_TASK"] = str(cpus_per_task)
    return both_names(variables)


def node_variables(index: int, part: NodeTasks) -> dict[str, str]:
    """What the tasks of one node share. index: the node's place within the step."""
    named = {"NODEID": str(index), "GTIDS": ",".join(str(rank) for rank in part.ranks)}
    return {**both_names(named), "SLURMD_NODENAME": part.node}


def task_variables(rank: int, local: int, gpus: Sequence[str]) -> dict[str, str]:
    """What one task alone has. gpus: UUIDs it sees, in order."""
    seen = ",".join(gpus) or NO_GPUS
    return {**both_names({"PROCID": str(rank), "LOCALID": str(local)}), "CUDA_VISIBLE_DEVICES": seen}


def task_gpus(gpus: Sequence[str], local: int, per_task: int | None) -> tuple[str, ...]:
    """The GPUs one task sees: all of the run's on its node, or its own `per_task` of them in order."""
    if per_task is None:
        return tuple(gpus)
    mine = tuple(gpus[local * per_task : (local + 1) * per_task])
    if len(mine) < per_task:
        raise BadRequest(f"{per_task} GPUs for task {local} of a node that has {len(gpus)} for this job")
    return mine
