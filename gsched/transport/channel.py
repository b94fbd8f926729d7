"""One connection as frames: bytes in become calls of `on_frame`, frames out are collected into few writes.

Bounded both ways. Reading stops while the receiver says `hold` or while the other side does not take what was sent;
a peer that lets more than `send_limit` bytes wait is cut off.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, Protocol, cast

from gsched.errors import GschedError
from gsched.protocol import frames

SEND_LIMIT: Final = 32 * 1024 * 1024  # bytes
_FRAMES_A_TURN: Final = 32  # then other connections have their turn
_HIGH_WATER: Final = 1024 * 1024  # bytes unsent above which nothing more is read from the peer


class Receiver(Protocol):
    """What a channel tells its owner. All calls come from the event loop."""

    def on_open(self, channel: Channel) -> None: ...

    def on_frame(self, channel: Channel, frame: frames.Frame) -> None:
        """May raise GschedError: the connection is then closed with that reason."""

    def on_closed(self, channel: Channel, why: str) -> None:
        """Called once, last; `why` is for the log."""


class Channel(asyncio.Protocol):
    """A connection that speaks frames. Give it to create_server, create_connection and their kin."""

    def __init__(self, receiver: Receiver, *, send_limit: int = SEND_LIMIT, max_frame: int = frames.MAX_FRAME) -> None:
        self._receiver = receiver
        self._send_limit = send_limit
        self._decoder = frames.Decoder(max_frame)
        self._transport: asyncio.Transport | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        self._held = False
        self._full = False
        self._why = ""
        self._closing = False
        self._drained: asyncio.Event | None = None

    # --- for the owner

    @property
    def transport(self) -> asyncio.Transport:
        assert self._transport is not None, "not connected yet"
        return self._transport

    @property
    def closing(self) -> bool:
        return self._closing

    @property
    def full(self) -> bool:
        """The other side does not take what was sent."""
        return self._full

    def send(self, kind: int, id: int, message: Any) -> bool:
        """Queue one frame; it is written when the loop comes round. False if the connection is gone.

        Raises TooLarge if the message fits in no frame.
        """
        return self.send_packed(frames.encode(kind, id, message))

    def send_packed(self, packed: bytes) -> bool:
        if self._closing or self._transport is None or self._loop is None:
            return False
        if not self._unsent:
            self._loop.call_soon(self._flush)
        self._unsent.append(packed)
        self._unsent_bytes += len(packed)
        waiting = self._transport.get_write_buffer_size() + self._unsent_bytes
        # One frame always may wait, however large: the limit is against a peer that takes nothing.
        if waiting > self._send_limit and waiting > len(packed):
            self.abort(f"the other side does not read: {waiting} bytes wait, at most {self._send_limit} may")
            return False
        return True

    async def drained(self) -> None:
        """Wait until the other side takes what was sent, or the connection is gone."""
        while self._full and not self._closing:
            if self._drained is None:
                self._drained = asyncio.Event()
            self._drained.clear()
            await self._drained.wait()

    def hold(self) -> None:
        """Take no further frame from the peer, also none that has arrived, until `resume`."""
        self._held = True
        self._pause()

    def resume(self) -> None:
        if self._held:
            self._held = False
            assert self._loop is not None, "resumed before it was opened"
            self._loop.call_soon(self._pump)

    def close(self, why: str) -> None:
        """Send what is queued, then close."""
        if not self._closing and self._transport is not None:
            self._flush()
            self._closing = True
            self._why = self._why or why
            self._transport.close()

    def abort(self, why: str) -> None:
        """Close at once; what is queued is lost."""
        if self._transport is not None:  # also where a close waits for a peer that does not read
            self._why = self._why or why
            self._closing = True
            self._unsent.clear()
            self._unsent_bytes = 0
            self._transport.abort()
        self._wake()

    # --- for the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_HIGH_WATER)
        self._loop = asyncio.get_running_loop()
        try:
            self._receiver.on_open(self)
        except GschedError as error:
            self.close(error.text)

    def data_received(self, data: bytes) -> None:
        if self._stopped():  # it was on its way when reading was stopped
            self._decoder.keep(data)
        else:
            self._pump(data)

    def pause_writing(self) -> None:
        self._full = True
        self._pause()

    def resume_writing(self) -> None:
        self._full = False
        self._wake()
        if self._loop is not None:
            self._loop.call_soon(self._pump)

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        self._wake()
        self._receiver.on_closed(self, self._why or (str(exc) if exc else "the other side closed the connection"))

    # --- inside

    def _pump(self, data: bytes = b"") -> None:
        if self._stopped():
            return
        try:
            for count, frame in enumerate(self._decoder.feed(data), 1):
                self._receiver.on_frame(self, frame)
                if self._stopped():
                    break
                if count >= _FRAMES_A_TURN:
                    self._pause()
                    asyncio.get_running_loop().call_soon(self._pump)
                    return
        except GschedError as error:
            self.close(error.text)
            return
        if not self._stopped():
            self.transport.resume_reading()

    def _stopped(self) -> bool:
        return self._held or self._full or self._closing

    def _pause(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def _flush(self) -> None:
        if self._unsent and self._transport is not None and not self._transport.is_closing():
            packed = self._unsent[0] if len(self._unsent) == 1 else b"".join(self._unsent)
            self._unsent.clear()
            self._unsent_bytes = 0
            self._transport.write(packed)

    def _wake(self) -> None:
        if self._drained is not None:
            self._drained.set()
