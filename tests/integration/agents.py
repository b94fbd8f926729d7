"""Real agents as processes, against the stand-in controller, and grun as a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from gsched.protocol.link import LaunchSpec
from gsched.values.ids import NodeName, RunKey
from tests.integration.stand_in import BIN, StandIn
from tests.waiting import until


class AgentProcess:
    """One agent, its spool and its log."""

    def __init__(self, controller: StandIn, node: str, folder: Path) -> None:
        self.node = node
        self.folder = folder / node
        self.spool = self.folder / "spool"
        self.socket = self.folder / "agent.sock"
        self.config = self.folder / "gsched.toml"
        self.folder.mkdir()
        self.config.write_text(f"[cluster]\nname = 'test'\nowner_uid = {os.geteuid()}\n")
        controller.certify(node, self.spool)
        self._controller = controller
        self.process: subprocess.Popen[bytes] | None = None

    def command(self, listen: str = "127.0.0.1:0") -> list[str]:
        return [
            *(str(BIN / "gsched-agent"), "--config", str(self.config), "--node", self.node),
            *("--controller", f"127.0.0.1:{self._controller.port}", "--spool", str(self.spool)),
            *("--socket", str(self.socket), "--listen", listen, "--simulate", "8xH100-SXM"),
        ]

    def start(self, listen: str = "127.0.0.1:0") -> None:
        """Start it and wait until the controller has its hello."""
        before = len(self._hellos())
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(self.command(listen), stderr=log, stdin=subprocess.DEVNULL)
        until(lambda: len(self._hellos()) > before, what=f"hello of {self.node}: {self.log()}")

    def kill(self, number: int = signal.SIGKILL) -> int:
        """Send a signal, wait for the end, give the exit status."""
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(10)

    def peak_kib(self) -> int:
        """The most memory that it ever had resident."""
        assert self.process is not None
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0])

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")[-3000:]

    def _hellos(self) -> list[str]:
        return [hello.node for hello in self._controller.hellos if hello.node == self.node]


class Cluster:
    """A stand-in controller and agents."""

    def __init__(self, controller: StandIn, folder: Path, nodes: Sequence[str]) -> None:
        self.controller = controller
        self.folder = folder
        self.nodes = tuple(nodes)
        self.agents = {node: AgentProcess(controller, node, folder) for node in nodes}
        self._jobs = 0

    def gang(self, script: str = "exec sleep 1000", nodes: Sequence[str] = (), cpus: int = 8) -> RunKey:
        """A running job on these nodes; output in `folder/JOB.out`."""
        self._jobs += 1
        job = self._jobs
        names = tuple(NodeName(node) for node in nodes or self.nodes)

        def launch(index: int) -> LaunchSpec:
            return LaunchSpec(
                uid=os.geteuid(),
                gid=os.getegid(),
                user="tester",
                job_name="test",
                cluster="test",
                partition="main",
                node_index=index,
                nodes=names,
                addresses=tuple("127.0.0.1" for _ in names),
                cpus=cpus,
                mem_mib=1000,
                gpu_uuids=tuple(f"GPU-{names[index]}-{i}" for i in range(4)),
                gpu_indices=(0, 1, 2, 3),
                port=0,
                master_port=0,
                ntasks=2 * len(names),
                tasks_per_node=2,
                ntasks_per_node_asked=None,
                cpus_per_task=1,
                cpus_per_task_asked=False,
                gpus_per_node_asked=4,
                gpus_asked=None,
                mem_asked_mib=None,
                time_limit_s=0,
                grace_s=1,
                restarts=0,
                script=f"#!/bin/sh\nPATH={BIN}:$PATH\n{script}\n".encode(),
                environment={"PATH": os.environ["PATH"], "HOME": "/nowhere"},
                chdir=str(self.folder),
                output=f"{job}.out",
            )

        return self.controller.run_gang(names, launch, job)

    def output(self, key: RunKey) -> str:
        return (self.folder / f"{key.job}.out").read_text()

    def grun(self, key: RunKey, *words: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """grun as a process outside the job's own processes, so that a test can watch and signal it."""
        return subprocess.Popen(
            self.grun_words(*words),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            env={**os.environ, **self.environment(key), **(env or {})},
        )

    def grun_words(self, *words: str) -> list[str]:
        return [str(BIN / "grun"), *words]

    def environment(self, key: RunKey) -> dict[str, str]:
        return {
            "GSCHED_SOCKET": str(self.agents[self.nodes[0]].socket),
            "SLURM_JOB_ID": str(key.job),
            "SLURM_JOB_NODELIST": ",".join(self.nodes),
            "SLURM_CPUS_ON_NODE": "8",
            "SLURM_GPUS_ON_NODE": "4",
            "SLURM_NTASKS": str(2 * len(self.nodes)),
            "SLURM_TASKS_PER_NODE": f"2(x{len(self.nodes)})",
        }


@contextmanager
def cluster(*nodes: str) -> Iterator[Cluster]:
    """Agents that stand; all is stopped in the end, runs included."""
    with tempfile.TemporaryDirectory(prefix="gs-") as name, StandIn(Path(name) / "ctl") as controller:
        made = Cluster(controller, Path(name), nodes)
        try:
            for agent in made.agents.values():
                agent.start()
            yield made
        finally:
            _stop(made)


def _stop(made: Cluster) -> None:
    """End every run that was started, then the agents. An agent that a test has killed is started for it."""
    for node, agent in made.agents.items():
        if made.controller.wanted.get(NodeName(node)) and (agent.process is None or agent.process.poll() is not None):
            agent.start()
    for node in made.nodes:
        for key in list(made.controller.wanted.get(NodeName(node), {})):
            made.controller.end([node], key)
    for agent in made.agents.values():
        if agent.process is not None and agent.process.poll() is None:
            agent.kill(signal.SIGTERM)


def run_python(code: str) -> list[str]:
    """The words that run a piece of Python as a task."""
    return [sys.executable, "-c", code]
