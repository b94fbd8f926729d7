"""A controller for tests: its parts in a thread of this process, or gschedd itself as a process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from gsched.client.blocking import Client, new_request_id
from gsched.clock import SystemClock
from gsched.config.settings import ClusterSettings, ControllerSettings, Settings
from gsched.protocol.messages import SubmitJob
from gsched.values.job import JobPayload, JobSpec
from gschedd.build import Address, Daemon, build
from gschedd.core.inputs import PassLog, Plan
from gschedd.planner import DeskLike
from tests.waiting import until


def settings_in(directory: Path, owner: int | None = None) -> Settings:
    """A local cluster's settings below `directory` (whose path must be short: it holds a socket)."""
    return Settings(
        cluster=ClusterSettings(name="test", owner_uid=os.geteuid() if owner is None else owner, allow_root=True),
        controller=ControllerSettings(
            socket=str(directory / "gschedd.sock"), listen="127.0.0.1:0", state_dir=str(directory / "state")
        ),
    )


def submission(name: str = "job", request_id: str = "") -> SubmitJob:
    spec = JobSpec(name=name, chdir="/", output="/dev/null")
    return SubmitJob(spec, JobPayload(script=b"#!/bin/sh\ntrue\n"), request_id or new_request_id())


class NoPlan:
    """A planner's desk that never starts anything."""

    def replay(self, log: PassLog) -> None:
        """All the same to it."""

    def decide(self, log: PassLog) -> Plan:
        self.replay(log)
        return Plan()


class InThread:
    """The wired controller with its own event loop in a thread; `daemon` is there to look at."""

    def __init__(self, settings: Settings, desk: DeskLike | None = None) -> None:
        self.daemon: Daemon = build(settings, SystemClock())
        self.error: BaseException | None = None
        self.address: Address | None = None
        self._desk: DeskLike = desk or NoPlan()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._work)

    def __enter__(self) -> Self:
        self._thread.start()
        until(lambda: self.address or self.error, what="the controller to be ready")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.call(self.daemon.controller.stop)
        self.ended()

    def call(self, action: Callable[[], object]) -> None:
        """Do something on the loop's thread."""
        if self._loop is not None and not self._loop.is_closed():
            with contextlib.suppress(RuntimeError):  # it ended at this moment
                self._loop.call_soon_threadsafe(action)

    def ended(self) -> BaseException | None:
        """Wait for the end; what it was."""
        self._thread.join(10)
        assert not self._thread.is_alive()
        return self.error

    def _work(self) -> None:
        async def serve() -> None:
            self._loop = asyncio.get_running_loop()
            try:
                await self.daemon.serve(self._desk, self._ready)
            finally:
                await asyncio.sleep(0.02)  # the loop's own transports end a few turns after their protocols

        try:
            asyncio.run(serve())
        except BaseException as error:
            self.error = error
        finally:
            self.daemon.store.close()

    def _ready(self, address: Address) -> None:
        self.address = address


TOML = """\
[cluster]
name = "test"
owner_uid = {uid}
allow_root = true

[controller]
socket = "{directory}/gschedd.sock"
listen = "127.0.0.1:0"
state_dir = "{directory}/state"
"""


class Process:
    """gschedd as it is run: a process with a configuration file in `directory`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.socket = directory / "gschedd.sock"
        self.log = directory / "gschedd.log"
        self.config = directory / "gsched.toml"
        self.config.write_text(TOML.format(uid=os.geteuid(), directory=directory))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it says that it is ready."""
        self.log.write_bytes(b"")
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "gschedd.main", "--config", str(self.config), "--pid-file", str(self.pid_file)],
                stderr=log,
                stdin=subprocess.DEVNULL,
            )
        until(lambda: "event=ready" in self.log.read_text() or self.status is not None, 180, "gschedd to be ready")
        assert self.status is None, self.log.read_text()

    @property
    def pid_file(self) -> Path:
        return self.directory / "gschedd.pid"

    @property
    def status(self) -> int | None:
        return None if self._process is None else self._process.poll()

    def kill(self) -> None:
        """As a crash would: SIGKILL."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM; its exit status."""
        return self._end(signal.SIGTERM)

    def _end(self, number: int) -> int:
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(number)
        return self._process.wait(20)


@contextlib.contextmanager
def process(directory: Path) -> Iterator[Process]:
    made = Process(directory)
    try:
        made.start()
        yield made
    finally:
        if made.status is None:
            made.kill()


def client(directory: Path) -> Client:
    return Client(str(directory / "gschedd.sock"), retry_s=20.0, say=lambda _: None)
