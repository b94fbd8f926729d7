"""The connection to the controller: dialled, kept alive, dialled again; requests of local users go along."""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, Final

import structlog

from agent.runs.effects import AgentEvent, Connected, Disconnected, Received
from gsched.errors import GschedError, ProtocolError, Unavailable, from_code
from gsched.protocol import frames
from gsched.protocol.link import (
    Acks,
    AgentMessage,
    ControllerMessage,
    Forward,
    Forwarded,
    Heartbeat,
    HeartbeatAck,
    Orders,
    Refused,
    Welcome,
)
from gsched.transport.conversation import Conversation
from gsched.transport.tls import require_role

CONNECT_S: Final = 10.0  # TCP, TLS and the welcome
MISSED_HEARTBEATS: Final = 3  # then the session is lost
SEND_LIMIT: Final = 8 * 1024 * 1024  # bytes that may wait; then the session is closed and the agent reconciles
PATIENCE_S: Final = 2.0  # a local request waits so long for a connection
ANSWER_S: Final = 30.0  # and so long for its answer
_FIRST_PAUSE_S: Final = 0.05
_MOST_FORWARDED: Final = 1024  # requests under way at once


class BackOff:
    """Pauses between tries: full jitter over a window which doubles up to `widest_s`."""

    def __init__(self, widest_s: float, draw: Callable[[float, float], float] = random.uniform) -> None:
        self.widest_s = widest_s
        self.tries = 0
        self._draw = draw

    def next_s(self) -> float:
        window = min(self.widest_s, _FIRST_PAUSE_S * 2 ** min(self.tries, 20))
        self.tries += 1
        return self._draw(0.0, window)

    def reset(self, widest_s: float) -> None:
        """A try succeeded; the next outage's window grows up to `widest_s`."""
        self.tries = 0
        self.widest_s = widest_s


class ControllerLink:
    """One connection at a time. `deliver` hands an event to the pure half and returns when it is dealt with."""

    def __init__(
        self,
        address: tuple[str, int],
        context: ssl.SSLContext,
        on_welcome: Callable[[Welcome], None],
        back_off: BackOff,
    ) -> None:
        self._host, self._port = address
        self._context = context
        self._on_welcome = on_welcome
        self._back_off = back_off
        self._conversation: Conversation | None = None
        self._heartbeat_s = 15.0  # the welcome says
        self._heard_at = 0.0
        self._welcomed = asyncio.Event()
        self._calls: dict[int, asyncio.Future[Forwarded]] = {}
        self._last_call = 0
        self._log: Any = structlog.get_logger()

    @property
    def address(self) -> str:
        return f"{self._host}:{self._port}"

    # --- for the driver

    def say(self, message: AgentMessage) -> None:
        if self._conversation is not None:
            self._conversation.channel.send(frames.PUSH, 0, message)

    def hang_up(self, why: str) -> None:
        if self._conversation is not None:
            self._conversation.channel.abort(why)

    # --- for local users

    async def forward(self, uid: int, gid: int, user: str, body: bytes) -> bytes:
        """Pass a packed request on, give the packed reply. Raises the controller's error, or Unavailable."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._welcomed.wait()
        except TimeoutError:
            raise Unavailable(f"this node has no connection to the controller at {self.address} now") from None
        if len(self._calls) >= _MOST_FORWARDED:
            raise Unavailable(f"{len(self._calls)} requests of this node wait for the controller; try again later")
        self._last_call += 1
        call = self._last_call
        answer = self._calls[call] = asyncio.get_running_loop().create_future()
        try:
            self.say(Forward(call, uid, gid, user, body))
            async with asyncio.timeout(ANSWER_S):
                forwarded: Forwarded = await answer
        except TimeoutError:
            raise Unavailable(f"the controller at {self.address} gave no answer for {ANSWER_S:.0f} s") from None
        finally:
            self._calls.pop(call, None)
        if forwarded.code:
            raise from_code(forwarded.code, forwarded.text)
        return forwarded.body

    # --- the connection

    async def run(self, deliver: Callable[[AgentEvent], Awaitable[None]]) -> None:
        """Until cancelled: dial, follow the session to its end, pause, again."""
        while True:
            try:
                await self._session(deliver)
            except (GschedError, OSError, TimeoutError) as error:
                self._tell(error)
            await deliver(Disconnected())
            await asyncio.sleep(self._back_off.next_s())

    def _tell(self, error: Exception) -> None:
        tries = self._back_off.tries
        if tries & (tries - 1) == 0:  # the first, the second, the fourth ...: an outage does not fill the log
            why = error.text if isinstance(error, GschedError) else str(error) or type(error).__name__
            self._log.warning("link.down", controller=self.address, why=why, tries=tries + 1)

    async def _session(self, deliver: Callable[[AgentEvent], Awaitable[None]]) -> None:
        conversation = await self._dial()
        self._conversation = conversation
        self._welcomed.clear()
        self._heard_at = asyncio.get_running_loop().time()
        beating = asyncio.create_task(self._beat(conversation), name="heartbeat")
        try:
            await deliver(Connected())
            while True:
                frame = await conversation.receive()
                self._heard_at = asyncio.get_running_loop().time()
                await self._take(frame, deliver)
        finally:
            self._conversation = None
            self._welcomed.clear()
            beating.cancel()
            conversation.channel.abort("the session is over")
            for answer in self._calls.values():
                if not answer.done():
                    answer.set_exception(Unavailable("the connection to the controller was lost"))

    async def _dial(self) -> Conversation:
        conversation = Conversation(send_limit=SEND_LIMIT)
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(CONNECT_S):
            transport, _ = await loop.create_connection(
                lambda: conversation.channel, self._host, self._port, ssl=self._context
            )
        try:
            require_role(transport.get_extra_info("ssl_object"), "controller")
        except GschedError:
            transport.abort()
            raise
        return conversation

    async def _take(self, frame: frames.Frame, deliver: Callable[[AgentEvent], Awaitable[None]]) -> None:
        if frame.kind != frames.PUSH:
            raise ProtocolError("the controller sends pushes only")
        if isinstance(frame.body, dict) and frame.body.get("type") == "hello":
            return
        message = frames.check_body(frame.body, ControllerMessage)
        match message:
            case Welcome():
                self._heartbeat_s = float(message.heartbeat_s)
                self._on_welcome(message)
                self._back_off.reset(message.comeback_s)
                self._log.info("link.up", controller=self.address, term=message.term, wanted=len(message.whole))
                await deliver(Received(message))
                self._welcomed.set()
            case Orders() | Acks() | HeartbeatAck():
                await deliver(Received(message))
            case Forwarded():
                answer = self._calls.get(message.call)
                if answer is not None and not answer.done():
                    answer.set_result(message)
            case Refused():
                raise Unavailable(f"refused: {message.text}")

    async def _beat(self, conversation: Conversation) -> None:
        """Ask for a sign of life each heartbeat; without any for three of them the session is lost."""
        try:
            async with asyncio.timeout(CONNECT_S):
                await self._welcomed.wait()
        except TimeoutError:
            conversation.channel.abort(f"no welcome for {CONNECT_S:.0f} s")
            return
        number = 0
        while True:
            await asyncio.sleep(self._heartbeat_s)
            silent_s = asyncio.get_running_loop().time() - self._heard_at
            if silent_s > MISSED_HEARTBEATS * self._heartbeat_s:
                conversation.channel.abort(f"no answer for {silent_s:.0f} s")
                return
            number += 1
            self.say(Heartbeat(number))
