"""Fixtures of the end-to-end tests: one cluster for all of them, left idle by each."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster import LocalCluster

SETTINGS = """
[times]
heartbeat_s = 1
kill_grace_s = 1

[[partition]]
name = "pair"
nodes = ["n1", "n2"]
"""


@pytest.fixture(scope="session")
def _session_cluster() -> Iterator[LocalCluster]:
    folder = Path(tempfile.mkdtemp(prefix="gs-"))  # short: a socket's path has at most 107 bytes
    cluster = LocalCluster(folder)
    try:
        cluster.up()
        cluster.down()
        with (cluster.dir / "gsched.toml").open("a") as file:
            file.write(SETTINGS)
        cluster.up()
        yield cluster
    finally:
        try:
            cluster.down()
        finally:
            shutil.rmtree(folder)


@pytest.fixture
def cluster(_session_cluster: LocalCluster) -> Iterator[LocalCluster]:
    """Four nodes n1 to n4 with 8 simulated GPUs each, all running and idle; n1 to n4 are running again afterwards."""
    yield _session_cluster
    _session_cluster.settle()
