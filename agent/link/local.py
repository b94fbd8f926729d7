"""The node's unix socket: users' requests are passed on as "uid U on this node", and answered.

It speaks what gschedd's own socket speaks. A client that goes away cancels nothing: its request was sent.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final, Protocol

import structlog

from gsched.auth.peer import Peer, UserNames, peer_of
from gsched.errors import GschedError, ProtocolError, Unavailable
from gsched.protocol import frames
from gsched.protocol.hello import Hello, require_compatible
from gsched.protocol.messages import UserReply, UserRequest
from gsched.transport.channel import Channel
from gsched.transport.conversation import Conversation
from gsched.transport.unix import listen_unix, remove_unix

_MOST_CONNECTIONS: Final = 512
_MOST_AT_ONCE: Final = 128  # requests of one connection under way


class Forwarder(Protocol):
    async def forward(self, uid: int, gid: int, user: str, body: bytes) -> bytes: ...


class _Client(Conversation):
    """A connection whose peer is known from its first moment: it may be gone again before anything is read."""

    peer = Peer(0, -1, -1)

    def on_open(self, channel: Channel) -> None:
        self.peer = peer_of(channel.transport.get_extra_info("socket"))
        super().on_open(channel)


class LocalSocket:
    """Serves the socket at `path`. mode: 0666 on a node; the directory decides who may enter."""

    def __init__(self, path: Path, forwarder: Forwarder, names: UserNames) -> None:
        self._path = path
        self._forwarder = forwarder
        self._names = names
        self._connections: set[asyncio.Task[None]] = set()
        self._answering: set[asyncio.Task[None]] = set()
        self._log: Any = structlog.get_logger()

    async def run(self) -> None:
        """Until cancelled. Raises BadConfig or Conflict if the path cannot be used."""
        sock = listen_unix(self._path, 0o666)
        made = self._path.stat()
        server = await asyncio.get_running_loop().create_unix_server(self._accept, sock=sock)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            server.close()  # without waiting for clients: they would keep the agent from stopping
            remove_unix(self._path, made)
            for task in (*self._connections, *self._answering):
                task.cancel()

    def _accept(self) -> asyncio.BaseProtocol:
        conversation = _Client()
        task = asyncio.get_running_loop().create_task(self._serve(conversation), name="local client")
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        return conversation.channel

    async def _serve(self, client: _Client) -> None:
        await client.opened()
        why = "done"
        try:
            if len(self._connections) > _MOST_CONNECTIONS:
                raise Unavailable(f"{_MOST_CONNECTIONS} connections to this node's agent are open; try again later")
            user = self._names.known(client.peer.uid)
            if user is None:
                user = await asyncio.to_thread(self._names.find, client.peer.uid)
            await self._requests(client, user)
        except GschedError as error:
            why = error.text
            if not client.why:  # the client is still there: it learns why
                client.channel.send(frames.ERROR, 0, (error.code, error.text))
        finally:
            client.close(why)

    async def _requests(self, client: _Client, user: str) -> None:
        """Read requests until the client goes away; each is answered when its answer comes."""
        client.channel.send(frames.PUSH, 0, Hello(software="gsched-agent"))
        under_way: set[asyncio.Task[None]] = set()
        while True:
            frame = await client.receive()
            if frame.kind == frames.PUSH:
                require_compatible(frames.check_body(frame.body, Hello).version)
                continue
            if frame.kind != frames.REQUEST:
                raise ProtocolError("a client sends requests only")
            body = frames.pack_body(frames.check_body(frame.body, UserRequest))
            while len(under_way) >= _MOST_AT_ONCE:
                await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
            task = asyncio.create_task(self._answer(client, frame.id, user, body))
            for tasks in (under_way, self._answering):
                tasks.add(task)
                task.add_done_callback(tasks.discard)

    async def _answer(self, client: _Client, id: int, user: str, body: bytes) -> None:
        try:
            packed = await self._forwarder.forward(client.peer.uid, client.peer.gid, user, body)
            reply = frames.unpack_body(packed, UserReply)
        except GschedError as error:
            client.channel.send(frames.ERROR, id, (error.code, error.text))
        else:
            client.channel.send(frames.REPLY, id, reply)
