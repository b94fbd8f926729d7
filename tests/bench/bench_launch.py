"""One node's launches without controller or network: runs a second, and what a supervisor weighs."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import agent.supervisor
from agent.runs.effects import Cleaned, Forget, Opened, Prepare, Start
from tests.bench.report import Row, milliseconds, show
from tests.integration.one_node import OneNode, key, launch_spec

RUNS = 300
AT_ONCE = 16
IDLE = 8


def main() -> None:
    folder = Path(tempfile.mkdtemp())
    node = OneNode(folder / "spool", folder)
    try:
        rates = [runs_per_second(node, RUNS, first=1 + n * RUNS) for n in range(3)]
        single = [one_run(node, 10_000 + n) for n in range(30)]
        private, shared = weigh(node)
    finally:
        node.end_all()
        shutil.rmtree(folder)
    floors = [milliseconds(floor) for _ in range(30)]
    alone = [milliseconds(by_itself) for _ in range(10)]
    show(
        "Launch",
        [
            Row(f"runs of `true` prepared to clean, {AT_ONCE} at once", rates, "1/s", "200, aim 1,000"),
            Row("one run of `true`, prepare to clean", single),
            Row("start and exec of /bin/true alone (the floor)", floors),
            Row("a supervisor started by itself, to its first word", alone),
            Row("a supervisor's own memory while its job runs", private, "KiB"),
            Row("  with what it shares with the template", shared, "KiB"),
        ],
    )


def runs_per_second(node: OneNode, count: int, first: int) -> float:
    """Keep some in flight until all are clean; forget each, as an agent does."""
    spec = launch_spec("#!/bin/true\n", output="/dev/null", chdir="/")
    begun = over = 0
    began = perf_counter()
    while over < count:
        while begun < count and begun - over < AT_ONCE:
            run = key(first + begun)
            node.do(Prepare(run, spec), Start(run))
            begun += 1
        node.until(lambda: any(isinstance(event, Cleaned) for event in node.events))
        ended = [event.key for event in node.events if isinstance(event, Cleaned)]
        node.events.clear()
        node.do(*(Forget(run) for run in ended))
        over += len(ended)
    return count / (perf_counter() - began)


def one_run(node: OneNode, job: int) -> float:
    return milliseconds(lambda: node.finish(key(job), "#!/bin/true\n", output="/dev/null"))


def floor() -> None:
    subprocess.run(["/bin/true"], check=True)


def by_itself() -> None:
    """The other road, without a template: a Python that starts and imports all, and ends with its usage message."""
    command = [sys.executable, "-I", "-S", "-X", "utf8", str(Path(agent.supervisor.__file__).parent)]
    subprocess.run(command, check=False, stderr=subprocess.DEVNULL)


def weigh(node: OneNode) -> tuple[list[float], list[float]]:
    """Private and resident memory of supervisors, in KiB."""
    private, resident = [], []
    for job in range(20_000, 20_000 + IDLE):
        node.launch(key(job), "#!/bin/sh\nexec sleep 1000\n", output="/dev/null")
        node.event(Opened, key(job))
        supervisor = node.supervisor(key(job))
        lines = Path(f"/proc/{supervisor}/smaps_rollup").read_text().splitlines()
        sizes = {line.split(":")[0]: float(line.split()[1]) for line in lines[1:]}
        private.append(sizes["Private_Clean"] + sizes["Private_Dirty"])
        resident.append(sizes["Rss"])
    return private, resident


if __name__ == "__main__":
    main()
