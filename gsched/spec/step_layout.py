"""How the tasks of a step are spread over its nodes: Slurm's block distribution.

As Slurm's `_task_layout_block` does: deal the tasks out one a node in turn, to nodes that still have room, to learn how
many each gets; then number them in blocks, so that neighbours in rank share a node.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from gsched.errors import BadRequest
from gsched.values.ids import NodeName


class Room(Struct, frozen=True):
    """What one node of the run offers to a step."""

    node: NodeName
    cpus: int
    gpus: int = 0


class NodeTasks(Struct, frozen=True):
    """One node's part of a step: ranks first .. first + count - 1."""

    node: NodeName
    first: int
    count: int

    @property
    def ranks(self) -> range:
        return range(self.first, self.first + self.count)


def tasks_that_fit(room: Room, cpus_per_task: int, gpus_per_task: int, at_most: int | None) -> int:
    """Most tasks that the node holds at once. at_most: --ntasks-per-node, None = no such limit."""
    fit = room.cpus // cpus_per_task
    if gpus_per_task:
        fit = min(fit, room.gpus // gpus_per_task)
    return fit if at_most is None else min(fit, at_most)


def block_layout(
    rooms: Sequence[Room], ntasks: int, cpus_per_task: int = 1, gpus_per_task: int = 0, at_most: int | None = None
) -> tuple[NodeTasks, ...]:
    """Say which ranks run where; nodes left without a task are left out. Raises BadRequest if they do not fit."""
    fit = [tasks_that_fit(room, cpus_per_task, gpus_per_task, at_most) for room in rooms]
    if ntasks > sum(fit):
        raise BadRequest(_too_many(rooms, fit, ntasks, cpus_per_task, gpus_per_task, at_most))
    counts = [0] * len(rooms)
    left = ntasks
    while left:
        for i in range(len(rooms)):
            if left and counts[i] < fit[i]:
                counts[i] += 1
                left -= 1
    laid = []
    first = 0
    for room, count in zip(rooms, counts, strict=True):
        if count:
            laid.append(NodeTasks(room.node, first, count))
        first += count
    return tuple(laid)


def _too_many(rooms: Sequence[Room], fit: Sequence[int], ntasks: int, cpus: int, gpus: int, at_most: int | None) -> str:
    asked = f"{ntasks} tasks of {cpus} core{'s' * (cpus > 1)}"
    if gpus:
        asked += f" and {gpus} GPU{'s' * (gpus > 1)}"
    if at_most is not None:
        asked += f", at most {at_most} a node,"
    places = ", ".join(
        f"{room.node} {n} ({room.cpus} cores, {room.gpus} GPUs)" for room, n in zip(rooms[:4], fit, strict=False)
    )
    more = f", and {len(rooms) - 4} more nodes" if len(rooms) > 4 else ""
    return (
        f"{asked} do not fit into the job: its nodes hold {sum(fit)} ({places}{more}); ask for fewer or smaller tasks"
    )
