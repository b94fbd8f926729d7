"""An executor on a spool of its own, driven step by step: effects in, events awaited."""

from __future__ import annotations

import asyncio
import os
import pwd
import signal
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from agent.runs.effects import (
    AgentEvent,
    Cleaned,
    Effect,
    Forget,
    FoundRun,
    Opened,
    Prepare,
    PrepareFailed,
    Start,
    Stop,
)
from agent.runs.executor import Executor
from agent.supervisor import processes, records
from gsched.auth.tickets import Ticket
from gsched.config.settings import AgentSettings
from gsched.protocol.link import LaunchSpec
from gsched.protocol.stream import OpenStep, TaskSpec
from gsched.values.ids import Instant, JobId, NodeName, RunKey, RunNo, StepId
from gsched.values.node import Inventory

E = TypeVar("E")
T = TypeVar("T")
NODE = NodeName("n1")


def key(job: int, run: int = 1) -> RunKey:
    return RunKey(JobId(job), RunNo(run))


def launch_spec(script: str = "#!/bin/sh\n", **changes: Any) -> LaunchSpec:
    """A job of this user on one node; what a test does not say is as plain as can be."""
    values: dict[str, Any] = {
        "uid": os.getuid(),
        "gid": os.getgid(),
        "user": pwd.getpwuid(os.getuid()).pw_name,
        "job_name": "job",
        "cluster": "test",
        "partition": "main",
        "node_index": 0,
        "nodes": (NODE,),
        "addresses": ("127.0.0.1",),
        "cpus": 2,
        "mem_mib": 1024,
        "gpu_uuids": (),
        "gpu_indices": (),
        "port": 0,
        "master_port": 0,
        "ntasks": 1,
        "tasks_per_node": 1,
        "ntasks_per_node_asked": None,
        "cpus_per_task": 1,
        "cpus_per_task_asked": False,
        "gpus_per_node_asked": None,
        "gpus_asked": None,
        "mem_asked_mib": None,
        "time_limit_s": 0,
        "grace_s": 5,
        "restarts": 0,
        "script": script.encode(),
        "environment": {"PATH": os.environ["PATH"]},
    }
    return LaunchSpec(**{**values, **changes})


def step_request(*argv: str, ranks: tuple[int, ...] = (0,), **changes: Any) -> OpenStep:
    tasks = tuple(TaskSpec(rank, local, {"RANK": str(rank)}) for local, rank in enumerate(ranks))
    values: dict[str, Any] = {"environment": {"PATH": os.environ["PATH"]}, "chdir": "/"}
    return OpenStep(ticket="", argv=argv, tasks=tasks, **{**values, **changes})


class OneNode:
    """One agent's executor. Its runs outlive it, as they outlive an agent, until `end_all`."""

    def __init__(
        self,
        spool: Path,
        work: Path,
        settings: AgentSettings | None = None,
        gpu_minors: dict[int, int] | None = None,
        inventory: Inventory | None = None,
    ) -> None:
        self.spool = spool
        self.gpu_minors = gpu_minors
        self.inventory = inventory
        self.settings = settings or AgentSettings()
        self.work = work
        self.events: list[AgentEvent] = []
        self.next: OneNode | None = None  # after a restart
        self._loop = asyncio.new_event_loop()
        self.executor, self.found = self.wait_for(self._start())

    async def _start(self) -> tuple[Executor, tuple[FoundRun, ...]]:
        executor = Executor(
            self.spool,
            NODE,
            self.events.append,
            "/the/agent.sock",
            settings=self.settings,
            gpu_minors=self.gpu_minors,
            inventory=self.inventory,
        )
        return executor, executor.adopt()

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(asyncio.wait_for(work, 20))

    def do(self, *effects: Effect) -> None:
        async def act() -> None:
            for effect in effects:
                self.executor.carry_out(effect)

        self.wait_for(act())

    def launch(self, run: RunKey, script: str = "#!/bin/sh\n", **changes: Any) -> None:
        """Prepare and start, as a run on one node is told."""
        changes = {"chdir": str(self.work), **changes}
        self.do(Prepare(run, launch_spec(script, **changes)), Start(run))

    def until(self, condition: Callable[[], T], within_s: float = 10.0) -> T:
        """Let the loop run until the condition gives something true; give that."""

        async def look() -> T:
            deadline = time.monotonic() + within_s
            while not (got := condition()):
                assert time.monotonic() < deadline, f"not within {within_s} s; events: {self.events}"
                await asyncio.sleep(0.003)
            return got

        return self.wait_for(look())

    def event(self, kind: type[E], run: RunKey, within_s: float = 10.0) -> E:
        """The first event of that kind about the run."""

        def found() -> E | None:
            fitting = (event for event in self.events if isinstance(event, kind) and event.key == run)  # type: ignore[attr-defined]  # every kind asked for has a key
            return next(fitting, None)

        got = self.until(found, within_s)
        assert got is not None
        return got

    def clean(self, run: RunKey, within_s: float = 10.0) -> Cleaned:
        return self.event(Cleaned, run, within_s)

    def finish(self, run: RunKey, script: str, **changes: Any) -> list[AgentEvent]:
        """Launch a run and give all its events once it is over."""
        self.launch(run, script, **changes)

        def about_it() -> list[AgentEvent]:
            return [event for event in self.events if getattr(event, "key", None) == run]

        self.until(lambda: any(isinstance(event, (Cleaned, PrepareFailed)) for event in about_it()))
        return about_it()

    def open_step(self, run: RunKey, step: int, request: OpenStep) -> None:
        ticket = Ticket(run.job, run.run, StepId(step), NODE, os.getuid(), Instant(0), len(request.tasks))
        self.wait_for(self.executor.open_step(run, StepId(step), request, ticket))

    def opened(self, run: RunKey) -> None:
        self.event(Opened, run)

    def record(self, run: RunKey) -> dict[str, Any]:
        return records.read_record_at(self.executor.spool.record_path(run))

    def supervisor(self, run: RunKey) -> int:
        """The pid of the run's supervisor, by the parent of its script."""
        script = processes.look_at(self.record(run)["pid"])
        assert script is not None
        return script.ppid

    def token(self, run: RunKey) -> str:
        return str(self.executor.spool.launch_of(run)["token"])

    def alive(self, run: RunKey) -> set[int]:
        """The run's processes by their mark."""
        return processes.marked(self.token(run))

    def restart(self) -> OneNode:
        """Drop this executor as if its agent had been killed; another on the same spool."""
        self.close()
        self.next = OneNode(self.spool, self.work, self.settings, self.gpu_minors, self.inventory)
        return self.next

    def close(self) -> None:
        self.wait_for(self._close())
        self._loop.close()

    async def _close(self) -> None:
        self.executor.close()

    def end_all(self) -> None:
        """Stop every run, and see that none is left; by the executor that came last."""
        if self.next is not None:
            self.next.end_all()
            return
        for run in self.executor.spool.found():
            if self.record(run).get("phase") not in (records.CLEAN, records.FAILED):
                self.do(Stop(run, 0))
                self.until(lambda run=run: self.record(run).get("phase") in ("", None, records.CLEAN, records.FAILED))  # type: ignore[misc]  # a default argument binds the loop's value
            self.do(Forget(run))
        self.close()


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
