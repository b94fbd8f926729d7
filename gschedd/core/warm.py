"""Compile every kernel that a pass uses, or load it from the cache: once, before the first real pass."""

from __future__ import annotations

from gsched.values.ids import Instant, JobId, NodeName, RunKey, RunNo
from gsched.values.job import NodeNeed, Request
from gsched.values.node import Gpu, Inventory
from gsched.values.run import NodeShare
from gschedd.core.board import build_snapshot
from gschedd.core.inputs import Factors, HoldInput, NodeInput, Policy, QueueInput
from gschedd.core.order import queue_order
from gschedd.core.plan import plan


def compile_kernels() -> None:
    """Run one small pass that starts a job, plans another and preempts for it: dtypes never vary, so that is all."""
    inventory = Inventory(
        cpus=8,
        memory_mib=8000,
        gpus=tuple(Gpu(index=i, uuid=f"GPU-{i}", model="model", memory_mib=1000) for i in range(2)),
    )
    nodes = [NodeInput(NodeName(f"n{i}"), inventory, ("main",)) for i in range(2)]
    share = NodeShare(NodeName("n0"), cpus=1, mem_mib=1, gpus=1)
    hold = HoldInput(RunKey(JobId(1), RunNo(1)), (share,), Instant(100), preemptable=True)
    gang, small = _request(nodes=2, gpus=2), _request(nodes=1, gpus=1)
    queue = [QueueInput(JobId(2), gang, rank=1, preempts=True), QueueInput(JobId(3), small)]
    plan(build_snapshot(nodes, [hold], queue), Policy(), Instant(0))
    far_apart = [queue[0], QueueInput(JobId(1 << 40), small, factors=Factors(nice=1 << 31))]
    for policy in (Policy(), Policy(shortest_first=True)):  # keys too wide for one number, and the other priority
        queue_order(build_snapshot(nodes, [hold], far_apart), policy, Instant(0))


def _request(nodes: int, gpus: int) -> Request:
    return Request(
        partition="main",
        nodes_min=nodes,
        nodes_max=nodes,
        ntasks=nodes,
        tasks_per_node=1,
        cpus_per_task=1,
        need=NodeNeed(cpus=1, gpus=gpus),
        time_limit_s=1,
    )
