"""Random small clusters with runs and a queue, for properties. Shapes are chosen so that much nearly fits."""

from __future__ import annotations

from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from gsched.values.ids import Instant, JobId, NodeName, RunKey, RunNo
from gsched.values.job import MemoryRule, Request
from gsched.values.node import Inventory
from gsched.values.run import NodeShare
from gschedd.core.inputs import Availability, Factors, HoldInput, NodeInput, Policy, QueueInput, Weights
from tests.builders.cluster import NOW, inventory, request

TWO_PAIRS = "X NV4 SYS SYS/NV4 X SYS SYS/SYS SYS X NV4/SYS SYS NV4 X"


class World(Struct, frozen=True):
    """What one pass is given."""

    nodes: tuple[NodeInput, ...]
    holds: tuple[HoldInput, ...]
    queue: tuple[QueueInput, ...]
    policy: Policy


KINDS = (
    inventory(gpus=4, cores=8, memory_mib=4000, links=TWO_PAIRS),
    inventory(gpus=4, cores=4, memory_mib=4001, model="NVIDIA A100"),
    inventory(gpus=0, cores=8, memory_mib=2000),
)
LEVELS = ("leaf", "pod")
_waited = st.sampled_from([Factors(eligible=Instant(NOW - 1000 * waited_s)) for waited_s in (0, 0, 90)])
LIMITS = (0, 30, 60, 300, 600, 3600)


@st.composite
def worlds(draw: st.DrawFn, most_nodes: int = 7, most_jobs: int = 10) -> World:
    """Runs never hold more than their node has."""
    nodes = tuple(draw(_node(i)) for i in range(draw(st.integers(1, most_nodes))))
    holds = tuple(hold for i, node in enumerate(nodes) for hold in draw(_holds(i, node)))
    count = draw(st.integers(0, most_jobs))
    jobs = tuple(
        QueueInput(JobId(i + 1), draw(requests(nodes)), draw(_names(nodes, 1)), draw(_waited)) for i in range(count)
    )
    policy = Policy(
        planned_starts=draw(st.sampled_from([0, 1, 1, 2, 4])),
        weights=Weights(age=0),  # the order is that of the ids
        strict_order=draw(st.booleans()) and count > 5,
    )
    return World(nodes, holds, jobs, policy)


@st.composite
def _node(draw: st.DrawFn, i: int) -> NodeInput:
    return NodeInput(
        NodeName(f"n{i}"),
        draw(st.sampled_from((*KINDS[:1] * 3, *KINDS))),
        draw(st.sampled_from([("main",), ("main", "other")])),
        draw(st.sampled_from([(), ("ib",)])),
        draw(st.sampled_from([("leaf1", "pod1"), ("leaf2", "pod1"), ("leaf3", "pod2"), ("leaf4", "pod2"), ()])),
        draw(st.sampled_from([Availability.UP] * 6 + [Availability.DRAINED, Availability.AWAY])),
        draw(st.sampled_from([0] * 6 + [1])),
    )


@st.composite
def _holds(draw: st.DrawFn, i: int, node: NodeInput) -> list[HoldInput]:
    """Up to three runs on one node."""
    has: Inventory = node.inventory
    left, holds = (1 << len(has.gpus)) - 1, []
    for run in range(draw(st.integers(0, 3))):
        gpus = draw(st.integers(0, (1 << len(has.gpus)) - 1)) & left
        left &= ~gpus
        share = NodeShare(
            node.name, draw(st.integers(1, has.cpus // 4)), draw(st.integers(1, has.memory_mib // 4)), gpus
        )
        end = draw(st.sampled_from([None, -10_000, 20_000, 60_000, 300_000, 301_000, 900_000]))
        key = RunKey(JobId(1000 + 10 * i + run), RunNo(1))
        holds.append(HoldInput(key, (share,), None if end is None else Instant(NOW + end)))
    return holds


@st.composite
def requests(draw: st.DrawFn, nodes: tuple[NodeInput, ...]) -> Request:
    least = draw(st.sampled_from([1, 1, 2, 3, 5]))
    plain = request(
        least,
        draw(st.sampled_from([0, 1, 2, 3, 4])),
        draw(st.sampled_from([1, 1, 2, 5])),
        at_most=least + draw(st.sampled_from([0, 0, 0, 2])),
        memory=draw(st.sampled_from([MemoryRule.SHARE, MemoryRule.SHARE, MemoryRule.ALL, 700])),
        limit_s=draw(st.sampled_from(LIMITS)),
        partition=draw(st.sampled_from(["main"] * 5 + ["other"])),
        model=draw(st.sampled_from([""] * 4 + ["h100"])),
        on=draw(_names(nodes, 2)),
        exclude=draw(_names(nodes, 1)),
        constraint=draw(st.sampled_from([""] * 5 + ["ib"])),
    )
    if draw(st.integers(0, 2)) < 2:
        return plain
    return replace(
        plain,
        level=draw(st.sampled_from(["", "leaf", "pod"])),
        prefer_level=draw(st.sampled_from(["", "", "leaf", "pod"])),
        any_topology=draw(st.sampled_from([False, False, True])),
        switches=draw(st.sampled_from([0, 0, 1, 2])),
        switches_wait_s=draw(st.sampled_from([0, 60])),
        segment=draw(st.sampled_from([0, 2])) if least % 2 == 0 else 0,
    )


def _names(nodes: tuple[NodeInput, ...], most: int) -> st.SearchStrategy[tuple[NodeName, ...]]:
    """Mostly none."""
    some = st.lists(st.sampled_from([node.name for node in nodes]), max_size=most, unique=True).map(tuple)
    return st.one_of(st.just(()), st.just(()), st.just(()), some)
