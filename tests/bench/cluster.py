"""A local cluster for one benchmark, taken down whatever happens."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gsched.client.blocking import new_request_id
from gsched.protocol.messages import SubmitJob
from gsched.values.job import JobPayload, JobSpec
from tests.e2e.cluster import LocalCluster


@contextmanager
def local_cluster(nodes: int, simulate: str = "8xH100-SXM") -> Iterator[LocalCluster]:
    folder = Path(tempfile.mkdtemp(prefix="gs-"))
    cluster = LocalCluster(folder, nodes, simulate)
    try:
        cluster.up()
        yield cluster
    finally:
        cluster.run("gcancel", "--me", check=False)
        cluster.run("gsched", "down", "--dir", str(cluster.dir), check=False, within_s=60)
        shutil.rmtree(folder)


def cpu_ms(cluster: LocalCluster, part: str) -> float:
    """CPU time that a daemon ("gschedd", "agent-n1") has used so far: what noise on the machine leaves comparable."""
    tasks = Path(f"/proc/{cluster.pid(part)}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e6


def submission(hold: bool = False, script: str = "true", cpus: int = 1) -> SubmitJob:
    """A small job as gsub would send it; output thrown away."""
    payload = JobPayload(script=f"#!/bin/sh\n{script}\n".encode(), environment={"PATH": os.environ["PATH"]})
    spec = JobSpec(name="bench", hold=hold, cpus_per_task=cpus, mem_mib=16, chdir="/", output="/dev/null")
    return SubmitJob(spec, payload, new_request_id())
