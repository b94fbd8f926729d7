"""A channel to `await` on: for the side that follows one conversation at a time."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Final

from gsched.errors import Unavailable
from gsched.protocol import frames
from gsched.transport.channel import SEND_LIMIT, Channel

_MOST_FRAMES: Final = 64  # received and not taken yet; then reading stops


class Conversation:
    """Frames of one connection, received by `await receive()`. Give `conversation.channel` to create_connection.

    In a server, make one in the protocol factory; `await opened()` then waits for the peer.
    """

    def __init__(self, *, send_limit: int = SEND_LIMIT) -> None:
        self.channel = Channel(self, send_limit=send_limit)
        self.why = ""  # it ended, once it has
        self._frames: deque[frames.Frame] = deque()
        self._news = asyncio.Event()
        self._open = asyncio.Event()

    async def opened(self) -> None:
        await self._open.wait()

    async def receive(self) -> frames.Frame:
        """The next frame. Raises Unavailable when the connection has ended; the text says why."""
        while not self._frames:
            if self.why:
                raise Unavailable(self.why)
            self._news.clear()
            await self._news.wait()
        frame = self._frames.popleft()
        if len(self._frames) < _MOST_FRAMES // 2 and not self.why:
            self.channel.resume()
        return frame

    async def send(self, kind: int, id: int, message: Any) -> None:
        """Send one frame; waits while the other side does not read. Raises Unavailable when it is gone, TooLarge."""
        if not self.channel.send(kind, id, message):
            raise Unavailable(self.why or "the connection is closed")
        await self.channel.drained()

    def close(self, why: str) -> None:
        self.channel.close(why)

    # --- Receiver

    def on_open(self, channel: Channel) -> None:  # noqa: ARG002  there is one only
        self._open.set()

    def on_frame(self, channel: Channel, frame: frames.Frame) -> None:
        self._frames.append(frame)
        self._news.set()
        if len(self._frames) >= _MOST_FRAMES:
            channel.hold()

    def on_closed(self, channel: Channel, why: str) -> None:  # noqa: ARG002  there is one only
        self.why = why
        self._news.set()
        self._open.set()
