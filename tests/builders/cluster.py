"""A small cluster, its runs and its queue, said in few words; everything not said has a default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gsched.values.ids import Instant, JobId, NodeName, RunKey, RunNo
from gsched.values.job import MemoryRule, NodeNeed, Request
from gsched.values.node import Gpu, Inventory
from gsched.values.run import NodeShare
from gsched.values.states import Reason
from gschedd.core.board import build_snapshot
from gschedd.core.inputs import Availability, HoldInput, NodeInput, Plan, Policy, QueueInput
from gschedd.core.plan import plan

NOW = Instant(1_700_000_000_000)


def inventory(
    gpus: int = 8, cores: int = 64, memory_mib: int = 512_000, model: str = "NVIDIA H100 80GB HBM3", links: str = ""
) -> Inventory:
    """links: rows of the topology matrix, `/` between rows and spaces between cells; "" = not known."""
    return Inventory(
        cpus=cores,
        memory_mib=memory_mib,
        gpus=tuple(Gpu(index=i, uuid=f"GPU-{i}", model=model, memory_mib=81_559) for i in range(gpus)),
        links=tuple(tuple(row.split()) for row in links.split("/")) if links else (),
    )


def request(
    nodes: int = 1,
    gpus: int = 0,
    cores: int = 1,
    *,
    at_most: int | None = None,
    memory: int | MemoryRule = MemoryRule.SHARE,
    limit_s: int = 3600,
    partition: str = "main",
    model: str = "",
    on: Sequence[str] = (),
    exclude: Sequence[str] = (),
    constraint: str = "",
) -> Request:
    """`nodes` nodes with that much on each; memory in MiB or by a rule."""
    rule = memory if isinstance(memory, MemoryRule) else MemoryRule.EXACT
    return Request(
        partition=partition,
        nodes_min=nodes,
        nodes_max=at_most or nodes,
        ntasks=nodes,
        tasks_per_node=1,
        cpus_per_task=cores,
        need=NodeNeed(cores, gpus, rule, 0 if isinstance(memory, MemoryRule) else memory),
        gpu_model=model,
        nodelist=tuple(NodeName(name) for name in on),
        exclude=tuple(NodeName(name) for name in exclude),
        constraint=constraint,
        time_limit_s=limit_s,
    )


class Outcome:
    """A plan in the names the test gave."""

    def __init__(self, plan: Plan, names: Mapping[JobId, str]) -> None:
        self.plan = plan
        self.started: dict[str, list[str]] = {names[s.job]: [share.node for share in s.shares] for s in plan.starts}
        self.gpus: dict[str, list[int]] = {names[s.job]: [share.gpus for share in s.shares] for s in plan.starts}
        self.memory: dict[str, list[int]] = {names[s.job]: [share.mem_mib for share in s.shares] for s in plan.starts}
        self.planned: dict[str, tuple[int, list[str]]] = {
            names[p.job]: ((p.at - NOW) // 1000, list(p.nodes)) for p in plan.planned
        }
        self.reasons: dict[str, Reason] = {names[w.job]: w.reason for w in plan.waits}
        self.details: dict[str, str] = {names[w.job]: w.detail for w in plan.waits}


class Cluster:
    """Nodes n1, n2, ... all alike and all in partition main, until something else is said."""

    def __init__(self, nodes: int = 4, of: Inventory | None = None, leaf: int = 0, pod: int = 0) -> None:
        """leaf: nodes under one leaf switch; pod: leaf switches under one pod switch; 0 = no such level."""
        self.nodes: dict[str, NodeInput] = {}
        self.holds: list[HoldInput] = []
        self.queue: list[QueueInput] = []
        self.names: dict[JobId, str] = {}
        for i in range(nodes):
            switches = [f"leaf{i // leaf}"] if leaf else []
            if pod:
                switches.append(f"pod{i // (leaf * pod)}")
            self.node(f"n{i + 1}", of, switches=switches)

    def node(
        self,
        name: str,
        of: Inventory | None = None,
        partitions: Sequence[str] = ("main",),
        features: Sequence[str] = (),
        switches: Sequence[str] = (),
        state: Availability = Availability.UP,
        gpus_out: int = 0,
    ) -> None:
        """Add a node, or say another thing of one."""
        self.nodes[name] = NodeInput(
            NodeName(name),
            of or inventory(),
            tuple(partitions),
            tuple(features),
            tuple(switches),
            state,
            gpus_out,
        )

    def running(
        self, *on: str, gpus: int = 0, cores: int = 1, memory_mib: int = 1, ends_in_s: int | None = 3600
    ) -> None:
        """A run that holds the lowest `gpus` free GPUs of each node; ends_in_s None = no expected end."""
        shares = tuple(NodeShare(NodeName(n), cores, memory_mib, self._lowest(n, gpus)) for n in on)
        end = None if ends_in_s is None else Instant(NOW + 1000 * ends_in_s)
        self.holds.append(HoldInput(RunKey(JobId(10_000 + len(self.holds)), RunNo(1)), shares, end))

    def pending(self, name: str, wanted: Request, avoid: Sequence[str] = ()) -> None:
        """Add a job at the end of the queue."""
        job = JobId(len(self.queue) + 1)
        self.names[job] = name
        self.queue.append(QueueInput(job, wanted, tuple(NodeName(n) for n in avoid)))

    def plan(self, policy: Policy | None = None) -> Outcome:
        snapshot = build_snapshot(list(self.nodes.values()), self.holds, self.queue)
        return Outcome(plan(snapshot, policy or Policy(), NOW), self.names)

    def _lowest(self, node: str, count: int) -> int:
        taken = 0
        for hold in self.holds:
            for share in hold.shares:
                taken |= share.gpus if share.node == node else 0
        free = [i for i in range(62) if not taken >> i & 1]
        return sum(1 << i for i in free[:count])
