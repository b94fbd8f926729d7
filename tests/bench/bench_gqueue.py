"""gqueue on 1,000 jobs as a whole process, against the least that a Python command with these libraries can take."""

from __future__ import annotations

import subprocess
import sys

from tests.bench.cluster import local_cluster, submission
from tests.bench.report import Row, milliseconds, show

FLOOR = [sys.executable, "-c", "import click, msgpack, socket"]


def main() -> None:
    floor, bare, queue, ratio = [], [], [], []
    with local_cluster(nodes=1) as cluster:
        with cluster.client() as client:
            client.pipeline([submission(hold=True) for _ in range(1000)])
        lines = cluster.out("gqueue", "-h").count("\n") + 1
        assert lines == 1000, lines
        for _ in range(30):  # side by side, so that a noisy machine is noisy for all
            floor.append(milliseconds(lambda: subprocess.run(FLOOR, check=True)))
            bare.append(milliseconds(lambda: cluster.run("gqueue", "--version")))
            queue.append(milliseconds(lambda: cluster.run("gqueue")))
            ratio.append(queue[-1] / floor[-1])
    show(
        "gqueue, 1,000 jobs",
        [
            Row("floor: python -c 'import click, msgpack, socket'", floor),
            Row("gqueue --version", bare),
            Row("gqueue", queue),
            Row("gqueue over its floor", ratio, "x", "at most 2"),
        ],
    )


if __name__ == "__main__":
    main()
