"""Submitting: one call, one gsub, and many in a row; every reply follows a commit that is on disk."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from time import perf_counter

from gsched.errors import GschedError
from tests.bench.cluster import cpu_ms, local_cluster, submission
from tests.bench.report import Row, milliseconds, show
from tests.e2e.cluster import LocalCluster


def main() -> None:
    with local_cluster(nodes=1) as cluster:
        rates, cpu = zip(*(rate(cluster, 2000) for _ in range(5)), strict=True)
        python, whole = zip(*((milliseconds(floor), gsub(cluster)) for _ in range(30)), strict=True)
        rows = [
            Row(
                "floor: write and fsync 4 KiB on the same disk", [milliseconds(fsync_once(cluster)) for _ in range(50)]
            ),
            Row("one submit, over an open connection", one_by_one(cluster, 200)),
            Row("floor: python -c 'import click, msgpack, socket'", python),
            Row("gsub, the whole process", whole, budget="p50 under 120"),
            Row("durable submits, one client, pipelined", rates, "1/s", "5,000"),
            Row("  CPU time of gschedd for each", cpu, "us"),
        ]
    show("Submit", rows)


def fsync_once(cluster: LocalCluster) -> Callable[[], None]:
    def action() -> None:
        with tempfile.NamedTemporaryFile(dir=cluster.dir / "state") as file:
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())

    return action


def one_by_one(cluster: LocalCluster, count: int) -> list[float]:
    with cluster.client() as client:
        return [milliseconds(lambda: client.call(submission(hold=True))) for _ in range(count)]


def gsub(cluster: LocalCluster) -> float:
    return milliseconds(lambda: cluster.gsub("--hold", "-o", "/dev/null", wrap="true"))


def floor() -> None:
    subprocess.run([sys.executable, "-c", "import click, msgpack, socket"], check=True)


def rate(cluster: LocalCluster, count: int) -> tuple[float, float]:
    """Submits a second, and CPU microseconds of gschedd for each."""
    requests = [submission(hold=True) for _ in range(count)]
    with cluster.client() as client:
        used, began = cpu_ms(cluster, "gschedd"), perf_counter()
        answers = client.pipeline(requests)
        took_s = perf_counter() - began
    failed = [answer for answer in answers if isinstance(answer, GschedError)]
    if failed:
        raise failed[0]
    return count / took_s, 1000 * (cpu_ms(cluster, "gschedd") - used) / count


if __name__ == "__main__":
    main()
