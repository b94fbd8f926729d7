"""From the submission to the job's first instruction on an idle cluster, and jobs run to completion a second."""

from __future__ import annotations

import time
from pathlib import Path
from time import perf_counter

from gsched.errors import GschedError
from gsched.protocol.messages import Ping
from tests.bench.cluster import cpu_ms, local_cluster, submission
from tests.bench.report import Row, percentile, show
from tests.e2e.cluster import LocalCluster
from tests.waiting import until

IDLE_JOBS = 100
BURST = 300


def main() -> None:
    with local_cluster(nodes=1) as cluster:
        first = [to_first_instruction(cluster, n) for n in range(IDLE_JOBS)]
        rates, controller, agent = zip(*(jobs_per_second(cluster, BURST) for _ in range(3)), strict=True)
    show(
        "Running",
        [
            Row("submit to the script's first instruction, idle", first, budget="p50 under 50, p99 under 200"),
            Row("  the same, 99th percentile", [percentile(first, 99)]),
            Row(f"jobs of `true` to completion, {BURST} at once, one node", rates, "1/s", "200"),
            Row("  CPU time of gschedd for each", controller),
            Row("  CPU time of the agent for each, without its supervisor", agent),
        ],
    )


def to_first_instruction(cluster: LocalCluster, number: int) -> float:
    """By the file that the script makes first, as the file system stamps it; both clocks are this machine's."""
    mark = cluster.work / f"mark-{number}"
    with cluster.client() as client:
        client.call(Ping())  # the connection is open
        asked = time.time()
        client.call(submission(script=f": > {mark}"))
    until(mark.exists, 10)
    until(lambda: not cluster.unfinished(), 10, "an idle cluster")
    return (Path(mark).stat().st_mtime - asked) * 1000


def jobs_per_second(cluster: LocalCluster, count: int) -> tuple[float, float, float]:
    """Jobs completed a second; CPU milliseconds of gschedd and of the agent for each."""
    parts = ("gschedd", "agent-n1")
    used = [cpu_ms(cluster, part) for part in parts]
    with cluster.client() as client:
        began = perf_counter()
        for answer in client.pipeline([submission() for _ in range(count)]):
            if isinstance(answer, GschedError):
                raise answer
    until(lambda: not cluster.unfinished(), 120, "every job to end")
    took_s = perf_counter() - began
    controller, agent = ((cpu_ms(cluster, part) - before) / count for part, before in zip(parts, used, strict=True))
    return count / took_s, controller, agent


if __name__ == "__main__":
    main()
