"""Sessions with agents: the certificate names the node, the first message is the hello, then messages both ways.

The queue of what is sent to an agent is bounded; an agent that does not read is cut off and reconciles on return.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from gsched.errors import GschedError, NotPermitted, ProtocolError, TooLarge, Unavailable
from gsched.protocol import frames
from gsched.protocol.link import AgentHello, AgentMessage, ControllerMessage, Forward, Forwarded
from gsched.protocol.messages import UserReply, UserRequest
from gsched.transport.channel import Channel
from gsched.transport.tls import peer_role
from gsched.values.ids import NodeName
from gschedd.events import AgentArrived, AgentLeft, AgentSaid, Close, Send

HELLO_S: Final = 10.0
SEND_LIMIT: Final = 64 * 1024 * 1024  # bytes; scripts of many launches may be among them
FORWARDS: Final = 1024  # users' requests of one session without an answer

Answer = Callable[[UserReply | GschedError], None]
# (node, forward, the request in it, the way back)
AskForUser = Callable[[NodeName, Forward, UserRequest, Answer], None]

log = structlog.get_logger("gschedd.fleet")


class Fleet:
    """All sessions. `feed` takes the events, `ask` the requests that agents pass on for their users."""

    def __init__(self, feed: Callable[[AgentArrived | AgentSaid | AgentLeft], None], ask: AskForUser) -> None:
        self.feed = feed
        self.ask = ask
        self.sessions: dict[int, _Session] = {}
        self._last = 0

    def channel(self) -> Channel:
        """For `loop.create_server`, with TLS that verifies the client."""
        self._last += 1
        return Channel(_Session(self, self._last), send_limit=SEND_LIMIT)

    def send(self, send: Send) -> None:
        session = self.sessions.get(send.session)
        if session is not None:
            session.send(send.message)

    def close_one(self, close: Close) -> None:
        session = self.sessions.get(close.session)
        if session is not None:
            session.channel.close(close.why)

    def close(self, why: str) -> None:
        """End every session, after what is queued for it was sent."""
        for session in list(self.sessions.values()):
            session.channel.close(why)

    def abort(self, why: str) -> None:
        for session in list(self.sessions.values()):
            session.channel.abort(why)


class _Session:
    """One agent's connection."""

    channel: Channel

    def __init__(self, fleet: Fleet, number: int) -> None:
        self._fleet = fleet
        self._number = number
        self._node = NodeName("")  # whom the certificate names
        self._deadline: asyncio.TimerHandle | None = None
        self._arrived = False
        self._forwards = 0

    def send(self, message: ControllerMessage) -> None:
        try:
            self.channel.send(frames.PUSH, 0, message)
        except TooLarge as error:
            self.channel.close(f"{type(message).__name__}: {error.text}")

    # --- Receiver

    def on_open(self, channel: Channel) -> None:
        self.channel = channel
        role, name = peer_role(channel.transport.get_extra_info("ssl_object"))
        if role != "node":
            raise NotPermitted(f"a {role or 'nameless'} certificate is not a node's")
        self._node = NodeName(name)
        self._fleet.sessions[self._number] = self
        self._deadline = asyncio.get_running_loop().call_later(HELLO_S, self._no_hello)

    def on_frame(self, channel: Channel, frame: frames.Frame) -> None:  # noqa: ARG002  there is one only
        if frame.kind != frames.PUSH:
            raise ProtocolError(f"a frame of kind {frame.kind} from an agent")
        message: AgentMessage = frame.read(AgentMessage)
        if isinstance(message, AgentHello) != (not self._arrived):
            raise ProtocolError(f"{type(message).__name__} {'again' if self._arrived else 'before the hello'}")
        if isinstance(message, AgentHello):
            self._arrive(message)
        elif isinstance(message, Forward):
            self._forward(message)
        else:
            self._fleet.feed(AgentSaid(self._number, message))

    def on_closed(self, channel: Channel, why: str) -> None:  # noqa: ARG002  there is one only
        if self._deadline is not None:
            self._deadline.cancel()
        self._fleet.sessions.pop(self._number, None)
        log.info("agent.left", node=self._node, session=self._number, why=why)
        if self._arrived:
            self._fleet.feed(AgentLeft(self._number))

    # --- inside

    def _no_hello(self) -> None:
        if not self._arrived:
            self.channel.abort(f"no hello within {HELLO_S:.0f} s")

    def _arrive(self, hello: AgentHello) -> None:
        self._arrived = True
        if self._deadline is not None:
            self._deadline.cancel()
        log.info("agent.arrived", node=self._node, session=self._number, runs=len(hello.runs))
        self._fleet.feed(AgentArrived(self._number, self._node, hello))

    def _forward(self, forward: Forward) -> None:
        def answer(body: UserReply | GschedError) -> None:
            self._forwards -= 1
            self.send(_forwarded(forward.call, body))

        self._forwards += 1
        if self._forwards > FORWARDS:
            answer(Unavailable(f"{FORWARDS} requests of users on {self._node} wait already: try again later"))
            return
        try:
            request: UserRequest = frames.unpack_body(forward.body, UserRequest)
        except ProtocolError as error:  # the user's fault, not the agent's: the session goes on
            answer(error)
            return
        self._fleet.ask(self._node, forward, request, answer)


def _forwarded(call: int, body: UserReply | GschedError) -> Forwarded:
    if isinstance(body, GschedError):
        return Forwarded(call, code=body.code, text=body.text)
    packed = frames.pack_body(body)
    if len(packed) > frames.MAX_FRAME - 1024:
        return Forwarded(call, code=TooLarge.code, text=f"an answer of {len(packed)} bytes: ask for fewer rows")
    return Forwarded(call, body=packed)
