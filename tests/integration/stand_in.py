"""A small controller for tests of agents: real TLS, real messages, and a wanted set that the test writes."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gsched.auth.authority import issue, make_authority
from gsched.auth.tickets import Ticket, node_key, sign
from gsched.errors import GschedError, NotFound
from gsched.protocol import frames
from gsched.protocol.link import (
    Acks,
    AgentHello,
    AgentMessage,
    ControllerMessage,
    Forward,
    Forwarded,
    Heartbeat,
    HeartbeatAck,
    LaunchSpec,
    NeedWhole,
    Orders,
    RunReport,
    StepReport,
    WantedRun,
    Welcome,
)
from gsched.protocol.messages import CreateStep, Ping, Pong, StepCreated, StepNode, UserReply, UserRequest
from gsched.transport.conversation import Conversation
from gsched.transport.tls import require_role, server_context
from gsched.values.ids import Instant, JobId, NodeName, RunKey, RunNo, StepId, Term
from gsched.values.run import NodePhase, WantedPhase
from tests.waiting import until

SECRET = b"s" * 32
BIN = Path(sys.executable).parent


class Session:
    """One agent's connection."""

    def __init__(self, conversation: Conversation, node: NodeName) -> None:
        self.conversation = conversation
        self.node = node
        self.orders = 0

    def send(self, message: ControllerMessage) -> None:
        self.conversation.channel.send(frames.PUSH, 0, message)


class StandIn:
    """Listens on a port of 127.0.0.1, on a loop in a thread. What agents said is in `hellos`, `reports`, `steps`."""

    def __init__(self, directory: Path, heartbeat_s: int = 1) -> None:
        self.directory = directory
        self.heartbeat_s = heartbeat_s
        self.term = Term(1)
        self.wanted: dict[NodeName, dict[RunKey, WantedRun]] = {}
        self.launches: dict[RunKey, dict[NodeName, LaunchSpec]] = {}
        self.hellos: list[AgentHello] = []
        self.reports: list[RunReport] = []
        self.steps: list[StepReport] = []
        self.forwards: list[Forward] = []
        self.answers_heartbeats = True
        self.next_step = 0
        self.port = 0
        self._sessions: dict[NodeName, Session] = {}
        self._serving: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        make_authority(directory / "ca", "test")
        issue(directory / "ca", "controller", "ctl", directory / "tls")
        self._context = server_context(directory / "tls", "controller")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.restart()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def restart(self) -> None:
        """Listen, again on the same port, with a higher term."""
        self.term = Term(self.term + 1)
        self._do(self._listen())

    def stop(self) -> None:
        """Close the port and every connection, as a controller that was killed."""
        self._do(self._close())

    def drop(self) -> None:
        """Break every connection; agents may come back at once."""
        self._do(self._break_all())

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _listen(self) -> None:
        self._server = await self._loop.create_server(
            self._accept, "127.0.0.1", self.port, ssl=self._context, reuse_address=True
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._break_all()
            await self._server.wait_closed()

    async def _break_all(self) -> None:
        for session in self._sessions.values():
            session.conversation.channel.abort("broken by the test")
        await asyncio.gather(*self._serving)

    # --- what a test says and asks

    def certify(self, node: str, spool: Path) -> None:
        issue(self.directory / "ca", "node", node, spool / "tls", ["127.0.0.1"])

    def want(self, node: str, run: WantedRun) -> None:
        """Put a run into a node's wanted set, and tell the node if it is connected."""
        self._do(self._change(NodeName(node), run.key, run))

    def forget(self, node: str, key: RunKey) -> None:
        self._do(self._change(NodeName(node), key, None))

    def run_gang(self, nodes: Sequence[str], launch: Callable[[int], LaunchSpec], job: int) -> RunKey:
        """Prepare everywhere, then start: the first node last."""
        key = RunKey(JobId(job), RunNo(1))
        self.launches[key] = {NodeName(node): launch(index) for index, node in enumerate(nodes)}
        for node in nodes:
            self.want(node, WantedRun(key=key, phase=WantedPhase.PREPARE, launch=self.launches[key][NodeName(node)]))
        self.wait_for(nodes, key, NodePhase.READY)
        for node in [*nodes[1:], nodes[0]]:
            self.want(node, WantedRun(key=key, phase=WantedPhase.START))
            self.wait_for([node], key, NodePhase.OPEN)
        return key

    def end(self, nodes: Sequence[str], key: RunKey) -> None:
        for node in nodes:
            self.want(node, WantedRun(key=key, phase=WantedPhase.STOP, grace_s=0))
        self.wait_for(nodes, key, NodePhase.CLEAN)
        for node in nodes:
            self.forget(node, key)

    def wait_for(self, nodes: Sequence[str], key: RunKey, phase: NodePhase) -> None:
        for node in nodes:
            until(
                lambda node=node: self.reported(node, key, phase),
                what=f"{node} says {phase} of {key}; said {[(r.node, r.phase, r.text) for r in self.reports]}",
            )

    def reported(self, node: str, key: RunKey, phase: NodePhase) -> RunReport | None:
        """The first report of that phase, or of one that follows it."""
        order = list(NodePhase)
        for report in list(self.reports):
            if report.node == node and report.key == key and order.index(report.phase) >= order.index(phase):
                return report
        return None

    def connected(self, *nodes: str) -> bool:
        return set(nodes) <= set(self._sessions)

    def address(self, node: str) -> str:
        return next(hello.stream_address for hello in reversed(self.hellos) if hello.node == node)

    def ticket(
        self, key: RunKey, step: int, node: str, *, ntasks: int = 1, expires_in_ms: int = 60_000, **other: Any
    ) -> str:
        uid = other.get("uid", os.geteuid())
        expires = Instant(time.time_ns() // 1_000_000 + expires_in_ms)
        ticket = Ticket(key.job, key.run, StepId(step), NodeName(node), uid, expires, ntasks)
        return sign(node_key(other.get("secret", SECRET), NodeName(other.get("signed_for", node))), ticket)

    # --- connections

    def _accept(self) -> asyncio.BaseProtocol:
        conversation = Conversation()
        task = self._loop.create_task(self._serve(conversation))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        return conversation.channel

    async def _serve(self, conversation: Conversation) -> None:
        await conversation.opened()
        session = None
        try:
            shown = require_role(conversation.channel.transport.get_extra_info("ssl_object"), "node")
            session = Session(conversation, NodeName(shown))
            while True:
                frame = await conversation.receive()
                self._take(session, frames.check_body(frame.body, AgentMessage))
        except GschedError as error:
            conversation.close(error.text)
        finally:
            if session is not None and self._sessions.get(session.node) is session:
                del self._sessions[session.node]

    def _take(self, session: Session, message: AgentMessage) -> None:
        match message:
            case AgentHello():
                assert message.node == session.node
                self.hellos.append(message)
                self._sessions[session.node] = session
                session.send(
                    Welcome(
                        term=self.term,
                        cluster="test",
                        heartbeat_s=self.heartbeat_s,
                        ticket_key=node_key(SECRET, session.node),
                        owner_uid=os.geteuid(),
                        whole=tuple(self.wanted.get(session.node, {}).values()),
                    )
                )
            case RunReport():
                self.reports.append(message)
                session.send(Acks((message.seq,)))
            case StepReport():
                self.steps.append(message)
                session.send(Acks((message.seq,)))
            case Heartbeat():
                if self.answers_heartbeats:
                    session.send(HeartbeatAck(message.number))
            case NeedWhole():
                session.orders += 1
                whole = tuple(self.wanted.get(session.node, {}).values())
                session.send(Orders(self.term, session.orders, put=whole, whole=True))
            case Forward():
                self.forwards.append(message)
                session.send(self._forwarded(message))

    def _forwarded(self, forward: Forward) -> Forwarded:
        try:
            reply = self._answer(frames.unpack_body(forward.body, UserRequest))
        except GschedError as error:
            return Forwarded(forward.call, code=error.code, text=error.text)
        return Forwarded(forward.call, frames.pack_body(reply))

    def _answer(self, request: UserRequest) -> UserReply:
        if isinstance(request, Ping):
            return Pong("test", "0", self.term, len(self.hellos), len(self._sessions), 0, Instant(0))
        if not isinstance(request, CreateStep):
            raise NotFound(f"the stand-in does not know {type(request).__name__}")
        key = RunKey(request.job, RunNo(1))
        nodes = [node for node in self.wanted if key in self.wanted[node]]
        launches = self.launches[key]
        step = StepId(self.next_step)
        self.next_step += 1
        places = tuple(
            StepNode(
                node=node,
                address=self.address(node),
                ticket=self.ticket(key, step, node, ntasks=request.ntasks),
                share_gpus=launches[node].gpu_uuids,
                cpus=launches[node].cpus,
            )
            for node in nodes[: request.nnodes or None]
        )
        ca = (self.directory / "ca" / "ca.pem").read_bytes()
        return StepCreated(step, key.run, places, ca, 4, 2)

    async def _change(self, node: NodeName, key: RunKey, run: WantedRun | None) -> None:
        if run is None:
            self.wanted.get(node, {}).pop(key, None)
        else:
            self.wanted.setdefault(node, {})[key] = run
        session = self._sessions.get(node)
        if session is not None:
            session.orders += 1
            put, drop = ((), (key,)) if run is None else ((run,), ())
            session.send(Orders(self.term, session.orders, put=put, drop=drop))
