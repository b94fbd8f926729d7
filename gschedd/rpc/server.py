"""The unix socket of users: who connects is proved by the kernel; a connection that speaks wrongly ends alone."""

from __future__ import annotations

import asyncio
import os
import socket
from collections import Counter
from typing import Any, Final

import structlog

from gsched import __version__
from gsched.auth.peer import Peer, UserNames, peer_of
from gsched.errors import GschedError, ProtocolError, TooLarge, Unavailable, VersionMismatch
from gsched.protocol import frames
from gsched.protocol.hello import Hello, require_compatible
from gsched.protocol.messages import UserReply, UserRequest
from gsched.transport.channel import Channel
from gschedd.rpc.dispatch import Caller, Dispatcher

IN_FLIGHT: Final = 256  # requests of one connection without a reply; then it is read no further
CONNECTIONS: Final = 2000
CONNECTIONS_OF_ONE_USER: Final = 400

log = structlog.get_logger("gschedd.rpc")


class UserServer:
    """Makes a connection's protocol; holds the limits on connections."""

    def __init__(self, dispatcher: Dispatcher, names: UserNames) -> None:
        self.dispatcher = dispatcher
        self.names = names
        self.connections: set[_Connection] = set()
        self.of_user: Counter[int] = Counter()

    def channel(self) -> Channel:
        """For `loop.create_unix_server`."""
        return Channel(_Connection(self))

    def close(self, why: str) -> None:
        """End every connection, after what is queued for it was sent."""
        for connection in list(self.connections):
            connection.channel.close(why)

    def abort(self, why: str) -> None:
        for connection in list(self.connections):
            connection.channel.abort(why)


class _Connection:
    """One user's connection: hello, then requests; replies in the order in which their causes are durable."""

    channel: Channel

    def __init__(self, server: UserServer) -> None:
        self._server = server
        self._peer = Peer(0, -1, -1)
        self._caller: Caller | None = None
        self._greeted = False
        self._in_flight = 0
        self._counted = False

    # --- Receiver

    def on_open(self, channel: Channel) -> None:
        self.channel = channel
        self._server.connections.add(self)
        self._peer = _peer(channel.transport)
        self._admit()
        name = self._server.names.known(self._peer.uid)
        if name is not None:
            self._named(name)
            return
        channel.hold()
        loop = asyncio.get_running_loop()
        lookup = loop.run_in_executor(None, self._server.names.find, self._peer.uid)
        lookup.add_done_callback(self._looked_up)

    def on_frame(self, channel: Channel, frame: frames.Frame) -> None:
        if not self._greeted:
            self._greet(frame)
            return
        if frame.kind != frames.REQUEST or self._caller is None:
            raise self._wrong(frame.id, ProtocolError(f"a frame of kind {frame.kind} where a request was expected"))
        try:
            request: UserRequest = frame.read(UserRequest)
        except ProtocolError as error:
            raise self._wrong(frame.id, error) from None
        self._in_flight += 1
        if self._in_flight >= IN_FLIGHT:
            channel.hold()
        self._server.dispatcher.ask(self._caller, request, lambda answer: self._answer(frame.id, answer))

    def on_closed(self, channel: Channel, why: str) -> None:  # noqa: ARG002  there is one only
        self._server.connections.discard(self)
        if self._counted:
            self._server.of_user[self._peer.uid] -= 1
            if not self._server.of_user[self._peer.uid]:
                del self._server.of_user[self._peer.uid]
        if why != _ENDED:
            log.info("connection.ended", uid=self._peer.uid, pid=self._peer.pid, why=why)

    # --- inside

    def _admit(self) -> None:
        """Raises Unavailable, which the client is told, if there are too many connections."""
        of_user = self._server.of_user[self._peer.uid]
        if len(self._server.connections) > CONNECTIONS:
            raise self._wrong(0, Unavailable(f"the controller has {CONNECTIONS} connections, its limit"))
        if of_user >= CONNECTIONS_OF_ONE_USER:
            raise self._wrong(0, Unavailable(f"uid {self._peer.uid} has {of_user} connections, the limit for one user"))
        self._server.of_user[self._peer.uid] += 1
        self._counted = True

    def _looked_up(self, lookup: asyncio.Future[str]) -> None:
        if not self.channel.closing:
            self._named(str(self._peer.uid) if lookup.cancelled() or lookup.exception() else lookup.result())
            self.channel.resume()

    def _named(self, name: str) -> None:
        self._caller = Caller(self._peer.uid, self._peer.gid, name)

    def _greet(self, frame: frames.Frame) -> None:
        if frame.kind != frames.PUSH:
            raise self._wrong(0, ProtocolError("a connection begins with a hello"))
        try:
            hello: Hello = frame.read(Hello)
            require_compatible(hello.version)
        except (ProtocolError, VersionMismatch) as error:
            raise self._wrong(0, error) from None
        self._greeted = True
        self.channel.send(frames.PUSH, 0, Hello(software=f"gschedd {__version__}"))

    def _wrong(self, id: int, error: GschedError) -> GschedError:
        """Tell the client why its connection ends."""
        self.channel.send(frames.ERROR, id, (error.code, error.text))
        return error

    def _answer(self, id: int, answer: UserReply | GschedError) -> None:
        self._in_flight -= 1
        if self._in_flight < IN_FLIGHT // 2:
            self.channel.resume()
        kind, body = _reply(answer)
        try:
            self.channel.send(kind, id, body)
        except TooLarge as error:
            self.channel.send(frames.ERROR, id, (error.code, error.text))


_ENDED: Final = "the other side closed the connection"


def _reply(answer: UserReply | GschedError) -> tuple[int, Any]:
    if isinstance(answer, GschedError):
        return frames.ERROR, (answer.code, answer.text)
    return frames.REPLY, answer


def _peer(transport: asyncio.Transport) -> Peer:
    # uvloop's transports give a socket-like object without getsockopt for credentials
    with socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno())) as connection:
        return peer_of(connection)
