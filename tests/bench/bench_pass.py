"""One pass: making the arrays, and deciding, on clusters 70 % busy. CPU time of this process, beside a numpy probe."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from time import process_time

import numpy as np

from gsched.values.ids import Instant, JobId, NodeName, RunKey, RunNo
from gsched.values.job import Request
from gsched.values.run import NodeShare
from gschedd.core.board import build_snapshot
from gschedd.core.inputs import HoldInput, NodeInput, Policy, QueueInput
from gschedd.core.plan import plan
from gschedd.core.warm import compile_kernels
from tests.bench.report import Row, show
from tests.builders.cluster import NOW, inventory, request

SIZES = ((1_000, 100), (10_000, 1_000))  # pending jobs, nodes of 8 GPUs
REPEATS = 11
NVSWITCH = "/".join(" ".join("X" if a == b else "NV18" for b in range(8)) for a in range(8))


def main() -> None:
    compile_kernels()
    floats = np.random.default_rng(1).random(100_000)
    rows = [Row("probe: stable argsort of 100,000 doubles", _cpu_ms(lambda: np.argsort(floats, kind="stable")))]
    for pending, size in SIZES:
        nodes, holds, queue = world(pending, size, Random(pending))
        snapshot = build_snapshot(nodes, holds, queue)
        decided = plan(snapshot, Policy(), NOW)
        classes = snapshot.classes.least.size
        what = f"{pending:,} pending ({classes:,} classes), {size:,} nodes, {len(decided.starts)} start"
        rows.append(Row(what, _cpu_ms(_pass(nodes, holds, queue))))
        rows.append(Row("  of that: arrays from values", _cpu_ms(_build(nodes, holds, queue))))
        rows.append(Row("  of that: plan()", _cpu_ms(_plan(nodes, holds, queue, 1))))
        rows.append(Row("  plan() with 50 planned starts", _cpu_ms(_plan(nodes, holds, queue, 50))))
    show("One pass (CPU time)", rows)


Values = tuple[list[NodeInput], list[HoldInput], list[QueueInput]]


def world(pending: int, size: int, random: Random) -> Values:
    """Leaf switches of 32 nodes, pods of 8 leaves; gangs of up to 1/8 of the nodes; limits of 10 minutes to 2 days."""
    kind = inventory(links=NVSWITCH)
    nodes = [
        NodeInput(NodeName(f"n{i}"), kind, ("main",), (), (f"leaf{i // 32}", f"pod{i // 256}")) for i in range(size)
    ]
    holds = [_hold(node, run, random) for node in nodes for run in range(2) if random.random() < 0.7]
    requests = [_request(size, random) for _ in range(pending // 5)]
    return nodes, holds, [QueueInput(JobId(i + 1), random.choice(requests)) for i in range(pending)]


def _hold(node: NodeInput, run: int, random: Random) -> HoldInput:
    """Half a node."""
    share = NodeShare(node.name, 32, 256_000, 0x0F << 4 * run)
    return HoldInput(RunKey(JobId(random.getrandbits(40)), RunNo(1)), (share,), _instant(random.randint(60, 86_400)))


def _request(size: int, random: Random) -> Request:
    nodes = random.choice([1, 1, 1, 1, 2, 4, max(size // 64, 1), max(size // 8, 1)])
    gpus = 8 if nodes > 1 else random.choice([1, 1, 2, 4, 8])
    limit_s = random.choice([600, 3600, 14_400, 86_400, 172_800])
    memory = random.randrange(1_000, 64_000) * gpus
    return request(nodes, gpus, random.randint(1, 8) * gpus, memory=memory, limit_s=limit_s)


def _instant(seconds: int) -> Instant:
    return Instant(NOW + 1000 * seconds)


def _pass(nodes: list[NodeInput], holds: list[HoldInput], queue: list[QueueInput]) -> Callable[[], object]:
    return lambda: plan(build_snapshot(nodes, holds, queue), Policy(), NOW)


def _build(nodes: list[NodeInput], holds: list[HoldInput], queue: list[QueueInput]) -> Callable[[], object]:
    return lambda: build_snapshot(nodes, holds, queue)


def _plan(
    nodes: list[NodeInput], holds: list[HoldInput], queue: list[QueueInput], planned: int
) -> Callable[[], object]:
    snapshot = build_snapshot(nodes, holds, queue)
    return lambda: plan(snapshot, Policy(planned_starts=planned), NOW)


def _cpu_ms(action: Callable[[], object]) -> list[float]:
    """CPU milliseconds of each of a few calls, the first one not counted."""
    action()
    values = []
    for _ in range(REPEATS):
        began = process_time()
        action()
        values.append((process_time() - began) * 1000)
    return values


if __name__ == "__main__":
    main()
