"""Puts the agent together. The only place that knows every concrete class of it."""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import structlog

from agent.inventory.host import boot_id, machine_id
from agent.link.controller import BackOff, ControllerLink
from agent.link.driver import Driver, Mailbox
from agent.link.local import LocalSocket
from agent.link.ticket_key import TicketKey
from agent.logs.attendance import Attendance
from agent.logs.server import StreamServer
from agent.runs.executor import Executor
from agent.runs.node_machine import NodeMachine
from gsched.auth.peer import UserNames
from gsched.clock import Clock
from gsched.config.settings import Settings
from gsched.errors import BadConfig, Conflict
from gsched.protocol.link import Welcome
from gsched.transport.keepalive import keep_alive
from gsched.transport.tls import client_context, server_context
from gsched.values.ids import NodeName
from gsched.values.node import Inventory

_FIRST_OUTAGE_S = 1.0  # the longest pause between tries before a controller has said another


class AgentOptions(NamedTuple):
    """What the command line says."""

    node: NodeName
    controller: tuple[str, int]
    spool: Path
    socket: Path
    listen: tuple[str, int]


class Agent:
    """Every part, made and ready; `run` goes on until it is cancelled. Runs outlive it."""

    def __init__(
        self, link: ControllerLink, mailbox: Mailbox, parts: dict[str, Callable[[], Any]], close: Callable[[], None]
    ) -> None:
        self._link = link
        self._mailbox = mailbox
        self._parts = parts
        self._close = close

    async def run(self) -> None:
        """If one part fails, the others stop and the failure is raised."""
        try:
            async with asyncio.TaskGroup() as group:
                for name, part in self._parts.items():
                    group.create_task(part(), name=name)
                group.create_task(self._link.run(self._mailbox.deliver), name="link")
        finally:
            self._close()


@contextmanager
def spool_lock(spool: Path) -> Iterator[None]:
    """One agent a spool. Raises Conflict if another one has it, BadConfig if it cannot be written."""
    try:
        spool.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(spool / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise BadConfig(f"spool {spool} cannot be used: {error.strerror}; expected a directory to write to") from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Conflict(f"another gsched-agent works on the spool {spool}: stop it first") from None
        yield
    finally:
        os.close(handle)


def listen_on(address: tuple[str, int]) -> socket.socket:
    """Bind the stream port. Raises BadConfig if it cannot be had."""
    host, port = address
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        raise BadConfig(f"cannot listen on {host}:{port}: {error.strerror or error}; choose another --listen") from None
    keep_alive(listener)
    return listener


def build(
    options: AgentOptions,
    settings: Settings,
    clock: Clock,
    inventory: Inventory,
    listener: socket.socket,
) -> Agent:
    """Make every part and adopt the runs that are there. Call on the running loop, with the spool locked.

    Raises BadConfig for certificates that are missing or wrong, or a spool of another machine.
    """
    tls = options.spool / "tls"
    mailbox = Mailbox()
    machine, boot = machine_id(), boot_id()
    executor = Executor(
        options.spool,
        options.node,
        mailbox.post,
        str(options.socket),
        boot,
        settings.agent,
        gpu_minors(inventory),
        inventory,
    )
    executor.spool.claim(machine)
    key = TicketKey(options.spool / "ticket.key")

    def welcomed(welcome: Welcome) -> None:
        key.keep(welcome.ticket_key)

    link = ControllerLink(options.controller, client_context(tls, "node"), welcomed, BackOff(_FIRST_OUTAGE_S))
    context: ssl.SSLContext = server_context(tls, "node", verify_client=False)
    found = executor.adopt()
    node_machine = NodeMachine(
        node=options.node,
        machine_id=machine,
        boot_id=boot,
        inventory=inventory,
        stream_address=stream_address(options.listen[0], listener),
        memory=executor.memory(),
        found=found,
        owner_uid=settings.cluster.owner_uid,
    )
    attendance = Attendance(executor.signal_step)
    for step in executor.live_steps():
        attendance.absent(step)  # its client is told to come back, or is gone
    streams = StreamServer(options.node, executor, attendance, context, key, clock)
    driver = Driver(node_machine, mailbox, executor, link, clock)
    local = LocalSocket(options.socket, link, UserNames())
    structlog.get_logger().info("agent.ready", node=options.node, runs_found=len(found), gpus=len(inventory.gpus))
    parts = {"driver": driver.run, "local socket": local.run, "streams": lambda: streams.run(listener)}
    return Agent(link, mailbox, parts, executor.close)


def gpu_minors(inventory: Inventory) -> dict[int, int] | None:
    """Device node of each GPU by its index; pretended GPUs have none; None if one of a real GPU is not known."""
    if inventory.simulated:
        return {}
    minors = {gpu.index: gpu.minor for gpu in inventory.gpus}
    return None if any(minor < 0 for minor in minors.values()) else minors


def stream_address(host: str, listener: socket.socket) -> str:
    """What clients dial: the address listened on, or this machine's name where that is every address."""
    port = listener.getsockname()[1]
    if host in ("", "0.0.0.0", "::"):
        host = socket.gethostname()
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
