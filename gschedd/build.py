"""Wires the controller. The only place that knows every concrete class."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

import structlog
from msgspec import Struct

from gsched.auth.peer import UserNames
from gsched.clock import Clock
from gsched.config.settings import Settings
from gsched.errors import BadConfig, Conflict, GschedError
from gsched.protocol.link import Forward
from gsched.protocol.messages import Accounting, AcctPage, UserReply, UserRequest
from gsched.transport.tls import server_context
from gsched.transport.unix import listen_unix, remove_unix
from gsched.values.ids import Instant, NodeName
from gschedd.core.inputs import PassInput, Plan
from gschedd.events import AgentArrived, AgentLeft, AgentSaid
from gschedd.fleet.sessions import Fleet
from gschedd.gate import Gate
from gschedd.loop import Controller, Outlets
from gschedd.machine import Machine
from gschedd.planner import DeskLike, Planner
from gschedd.rpc.dispatch import Caller, Dispatcher
from gschedd.rpc.inquirer import Inquirer
from gschedd.rpc.server import UserServer
from gschedd.services.topology import problems
from gschedd.store.retention import Kept
from gschedd.store.sql import SqlStore
from gschedd.store.writer import Fatal, Unconfirmed, Writer, WriterSaid, Written

_USER_SOCKET_MODE: Final = (
    0o666  # who connects is proved by the kernel; a local cluster's is in a directory of mode 0700
)
_PURGE_EVERY_S: Final = 3600.0
_LOOK_EVERY_S: Final = 60.0
_FAREWELL_S: Final = 2.0
_QUIET_TURNS: Final = 3  # without a connection, before the end
_STOPPING: Final = "the controller is stopping"
_TICKET_SECRET_BYTES: Final = 32

log = structlog.get_logger("gschedd")


class Address(Struct, frozen=True):
    """Where the daemon can be reached, once it can."""

    socket: str
    listen: str  # host:port, for agents


class Daemon:
    """Everything that `serve` runs. Made by `build`; the store is open and its directory locked."""

    def __init__(self, settings: Settings, clock: Clock, store: SqlStore, machine: Machine, gate: Gate) -> None:
        self.settings = settings
        self.clock = clock
        self.store = store
        self.controller = Controller(machine, gate, clock)
        names = UserNames()
        owner = settings.cluster.owner_uid
        self.dispatcher = Dispatcher(
            self.controller.feed, self._accounting, None if owner is None else (owner, names.find(owner))
        )
        self.users = UserServer(self.dispatcher, names)
        self.fleet = Fleet(self._from_agent, self._ask_for_user)
        self._state = machine.state
        self._arrivals = 0  # of agents, since the topology was last looked at
        self._odd: frozenset[str] = frozenset()  # what of the topology was in the log last

    async def serve(self, desk: DeskLike, ready: Callable[[Address], None]) -> None:
        """Serve until `controller.stop`; raise what ended it otherwise. `ready` is called when all listens."""
        loop = asyncio.get_running_loop()
        writer = Writer(self.store, lambda said: loop.call_soon_threadsafe(self._writer_said, said))
        planner = Planner(self.controller.pass_log, desk, self.controller.planned)
        inquirer = Inquirer(decide, self.dispatcher.answered)
        self.controller.connect(
            Outlets(
                answer=self.dispatcher.answered,
                send=self.fleet.send,
                close=self.fleet.close_one,
                submit=writer.submit,
                want_plan=planner.want,
                inquire=inquirer.ask,
            )
        )
        writer.start()
        try:
            async with self._listening() as address:
                tasks = [asyncio.create_task(self._purge()), asyncio.create_task(self._watch_topology())]
                ready(address)
                try:
                    await self.controller.run()
                    await self.controller.settle()
                finally:
                    for task in tasks:
                        task.cancel()
        finally:
            planner.stop()
            inquirer.stop()
            self.dispatcher.stop()
            await loop.run_in_executor(None, writer.stop)

    @contextlib.asynccontextmanager
    async def _listening(self) -> AsyncIterator[Address]:
        """Both doors open; at the end they are shut, and every connection is ended."""
        loop = asyncio.get_running_loop()
        tls = server_context(_tls_dir(self.settings), "controller")
        agents_door = listen_tcp(self.settings.controller.listen)
        path = Path(self.settings.controller.socket)
        try:
            users_door = listen_unix(path, _USER_SOCKET_MODE)
        except GschedError:
            agents_door.close()
            raise
        made = path.stat()
        agents = await loop.create_server(self.fleet.channel, sock=agents_door, ssl=tls, ssl_handshake_timeout=10.0)
        users = await loop.create_unix_server(self.users.channel, sock=users_door)
        host, port = agents_door.getsockname()[:2]
        try:
            yield Address(str(path), f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
        finally:
            remove_unix(path, made)
            agents.close()
            users.close()
            await self._say_farewell()

    async def _say_farewell(self) -> None:
        """Close every connection after what is queued for it was written; cut those that take too long.

        One that was accepted as the doors were shut shows itself a few turns of the loop later.
        """
        deadline = asyncio.get_running_loop().time() + _FAREWELL_S
        quiet_turns = 0
        while quiet_turns < _QUIET_TURNS and asyncio.get_running_loop().time() < deadline:
            self.users.close(_STOPPING)
            self.fleet.close(_STOPPING)
            quiet_turns = 0 if self.users.connections or self.fleet.sessions else quiet_turns + 1
            await asyncio.sleep(0.005)
        self.users.abort(_STOPPING)
        self.fleet.abort(_STOPPING)

    def _writer_said(self, said: WriterSaid) -> None:
        match said:
            case Written(number):
                self.controller.written(number)
            case Unconfirmed(cause):
                self.controller.unconfirmed(cause)
            case Fatal(error):
                self.controller.fail(error)

    def _accounting(self, request: Accounting) -> AcctPage:
        return self.store.accounting(request, Instant(self.clock.now().wall))

    def _ask_for_user(
        self, node: NodeName, forward: Forward, request: UserRequest, answer: Callable[[UserReply | GschedError], None]
    ) -> None:
        self.dispatcher.ask(Caller(forward.uid, forward.gid, forward.user, node), request, answer)

    def _from_agent(self, event: AgentArrived | AgentSaid | AgentLeft) -> None:
        self._arrivals += isinstance(event, AgentArrived)
        self.controller.feed(event)

    async def _watch_topology(self) -> None:
        """Say once in the log what is odd in the topology, as nodes join and report."""
        while True:
            self._arrivals, odd = 0, {problem.text: problem.kind.value for problem in problems(self._state)}
            for text in odd.keys() - self._odd:
                log.warning("topology.odd", kind=odd[text], what=text)
            self._odd = frozenset(odd)
            while not self._arrivals:
                await asyncio.sleep(_LOOK_EVERY_S)

    async def _purge(self) -> None:
        """Let the store forget what is past its time, a little at a time."""
        kept = Kept(answers_s=self.settings.times.answers_kept_s)
        while True:
            await asyncio.sleep(_PURGE_EVERY_S)
            with contextlib.suppress(GschedError):  # the store is away or busy: next time
                while await asyncio.to_thread(self.store.purge, Instant(self.clock.now().wall), kept):
                    await asyncio.sleep(0.1)


def build(settings: Settings, clock: Clock) -> Daemon:
    """Open the store, take the next term, load, and wire the parts. Raises GschedError with one clear line."""
    state_dir = _own_directory(Path(settings.controller.state_dir))
    store = SqlStore(settings.controller.database, state_dir)
    times, now = settings.times, clock.now()
    try:
        holder = f"{socket.gethostname()}:{os.getpid()}"
        loaded = store.open(holder, Instant(now.wall), times.min_job_age_s, times.answers_kept_s)
        _make_certificates(settings)
        secret = _ticket_secret(state_dir / "ticket.secret")
        ca_pem = (_tls_dir(settings) / "ca.pem").read_bytes()
        machine = Machine(settings, loaded, now, secret, ca_pem)
    except BaseException:
        store.close()
        raise
    log.info("store.opened", term=loaded.term, batch=loaded.batch, jobs=len(loaded.jobs), nodes=len(loaded.nodes))
    return Daemon(settings, clock, store, machine, Gate(loaded.term, loaded.batch))


def decide(given: PassInput) -> Plan:
    """One pass over whole values, for whoever asks what would be."""
    from gschedd.core.board import snapshot_of
    from gschedd.core.plan import plan  # numba is loaded here, after its cache was set up

    return plan(snapshot_of(given), given.policy, given.now)


def make_desk() -> DeskLike:
    """The planner's."""
    from gschedd.core.desk import Desk

    return Desk()


def listen_tcp(address: str) -> socket.socket:
    """A listening socket at HOST:PORT. Raises BadConfig for a wrong address, Conflict if the port is taken."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise BadConfig(f"controller.listen is {address!r}: expected HOST:PORT, as 0.0.0.0:6815")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    server = socket.socket(family, socket.SOCK_STREAM)
    try:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((host, int(port)))
        server.listen(1024)
    except OSError as error:
        server.close()
        raise Conflict(
            f"cannot listen on {address}: {(error.strerror or str(error)).lower()}; stop what listens there "
            "(another gschedd?) or set controller.listen"
        ) from None
    server.setblocking(False)
    return server


def _own_directory(path: Path) -> Path:
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.stat().st_mode & 0o022:
            raise BadConfig(f"controller.state_dir {path} can be written by others: chmod go-w {path}")
    except OSError as error:
        raise BadConfig(f"controller.state_dir {path} cannot be used: {error.strerror}") from None
    return path


def _tls_dir(settings: Settings) -> Path:
    return Path(settings.controller.state_dir) / "tls"


def _make_certificates(settings: Settings) -> None:
    """At the first start: the cluster's authority, and the controller's own certificate."""
    directory, name = _tls_dir(settings), settings.cluster.name
    if all((directory / file).exists() for file in ("ca.pem", "ca.key", "controller.pem", "controller.key")):
        return
    from gsched.auth.authority import issue, make_authority  # cryptography is slow to load, and seldom needed

    try:
        make_authority(directory, name)
        if not (directory / "controller.pem").exists():
            issue(directory, "controller", name, directory, [socket.gethostname(), "localhost", "127.0.0.1"])
    except OSError as error:
        raise BadConfig(f"{directory}: certificates cannot be made: {error.strerror}") from None


def _ticket_secret(path: Path) -> bytes:
    """The secret behind every node's ticket key; made at the first start."""
    try:
        if not path.exists():
            fresh = path.with_name(f"{path.name}.{os.getpid()}")
            handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(secrets.token_bytes(_TICKET_SECRET_BYTES))
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(path)
        if path.stat().st_mode & 0o077:
            raise BadConfig(f"{path} can be read by others: expected mode 600")
        secret = path.read_bytes()
    except OSError as error:
        raise BadConfig(f"{path}: {error.strerror}") from None
    if len(secret) != _TICKET_SECRET_BYTES:
        raise BadConfig(f"{path} holds {len(secret)} bytes: expected {_TICKET_SECRET_BYTES}; restore it from a backup")
    return secret
