"""The stream server: one TLS port; a ticket opens the door to one step of one run on this node."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import msgspec
import structlog

from agent.logs.attendance import Attendance
from agent.logs.follow import Follower
from agent.logs.steps import Steps
from gsched.auth.tickets import Ticket, verify
from gsched.clock import Clock
from gsched.errors import GschedError, NotPermitted, ProtocolError, TooLarge, Unavailable
from gsched.protocol import frames
from gsched.protocol.hello import Hello, require_compatible
from gsched.protocol.stream import OpenStep, SignalStep, StepOpened
from gsched.values.ids import NodeName

OPEN_S: Final = 10.0  # a connection must have shown its ticket by then
MOST_UNPROVED: Final = 64  # connections without a ticket yet
LARGEST_OPEN: Final = 4 * 1024 * 1024  # bytes of a frame
ENVIRONMENT_BYTES: Final = 1024 * 1024
_UNSENT: Final = 256 * 1024  # bytes that wait for a client; then its files are read no further
_READ: Final = 64 * 1024


class StreamServer:
    """Serves steps on a socket that is bound already."""

    def __init__(
        self,
        node: NodeName,
        steps: Steps,
        attendance: Attendance,
        context: ssl.SSLContext,
        ticket_key: Callable[[], bytes | None],
        clock: Clock,
    ) -> None:
        self._node = node
        self._steps = steps
        self._attendance = attendance
        self._context = context
        self._ticket_key = ticket_key
        self._clock = clock
        self._unproved = 0
        self._log: Any = structlog.get_logger()

    async def run(self, listener: socket.socket) -> None:
        """Until cancelled."""
        server = await asyncio.start_server(
            self._connected, sock=listener, ssl=self._context, ssl_handshake_timeout=OPEN_S, backlog=1024
        )
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            server.close()  # without waiting for clients: they would keep the agent from stopping

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.set_write_buffer_limits(high=_UNSENT)
        connection = _Connection(reader, writer)
        try:
            await self._serve(connection)
        except GschedError as error:
            self._log.info("step.refused", code=error.code, text=error.text, peer=writer.get_extra_info("peername"))
            connection.write(frames.ERROR, 1, (error.code, error.text))
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client is gone; attendance sees to its step
        finally:
            writer.close()

    async def _serve(self, connection: _Connection) -> None:
        if self._unproved >= MOST_UNPROVED:
            raise Unavailable(f"{MOST_UNPROVED} connections have not shown a ticket yet; try again")
        self._unproved += 1
        try:
            async with asyncio.timeout(OPEN_S):
                request = await connection.open_request()
            ticket = self._checked(request)
        except TimeoutError:
            raise ProtocolError(f"no ticket was shown within {OPEN_S:.0f} s") from None
        finally:
            self._unproved -= 1
        await self._steps.open_step(ticket.key, ticket.step, request, ticket)
        await connection.send(frames.REPLY, 1, StepOpened(ticket.step))
        await self._follow(connection, request, ticket)

    def _checked(self, request: OpenStep) -> Ticket:
        """Whose door it is. Raises NotPermitted, TooLarge, ProtocolError, or Unavailable before the first welcome."""
        key = self._ticket_key()
        if key is None:
            raise Unavailable(f"node {self._node} has not met its controller yet")
        ticket = verify(key, request.ticket, self._node)
        if not self._steps.has_step(ticket.key, ticket.step) and self._clock.now().wall > ticket.expires:
            raise NotPermitted(
                f"the ticket for step {ticket.key}.{ticket.step} has expired by this node's clock: start the step again"
            )
        if not request.argv or not request.tasks:
            raise ProtocolError("a step needs a command and tasks")
        if len(request.tasks) > ticket.ntasks or len({task.rank for task in request.tasks}) != len(request.tasks):
            raise NotPermitted(f"{len(request.tasks)} tasks: the ticket is for {ticket.ntasks} different ones")
        if any(not 0 <= task.rank < ticket.ntasks for task in request.tasks):
            raise NotPermitted(f"the ticket is for ranks 0 to {ticket.ntasks - 1}")
        size = sum(len(k) + len(v) + 2 for k, v in request.environment.items())
        if size > ENVIRONMENT_BYTES:
            raise TooLarge(f"environment of {size} bytes: at most {ENVIRONMENT_BYTES} are taken")
        return ticket

    async def _follow(self, connection: _Connection, request: OpenStep, ticket: Ticket) -> None:
        """Send output and take signals until the step has ended here or the client is gone."""
        step = (ticket.key, ticket.step)
        following = asyncio.ensure_future(self._send_output(connection, request, ticket))
        listening = asyncio.ensure_future(self._take_signals(connection, ticket))

        def leave() -> None:
            listening.cancel()

        self._attendance.joins(step, leave)
        ended = False
        try:
            await asyncio.wait((following, listening), return_when=asyncio.FIRST_COMPLETED)
            ended = following.done() and not following.cancelled() and following.exception() is None
        finally:
            self._attendance.leaves(step, leave, ended)
            for task in (following, listening):
                task.cancel()
            outcomes = await asyncio.gather(following, listening, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome

    async def _send_output(self, connection: _Connection, request: OpenStep, ticket: Ticket) -> None:
        async def send(message: msgspec.Struct) -> None:
            await connection.send(frames.PUSH, 0, message)

        follower = Follower(self._steps, ticket.key, ticket.step, send)
        ranks = [task.rank for task in request.tasks]
        await follower.run(ranks, request.offsets)

    async def _take_signals(self, connection: _Connection, ticket: Ticket) -> None:
        while (frame := await connection.next_frame()) is not None:
            message = frames.check_body(frame.body, SignalStep)
            if not 1 <= message.signal <= 64:
                raise ProtocolError(f"signal {message.signal}: expected 1 to 64")
            self._steps.signal_step(ticket.key, ticket.step, message.signal)


class _Connection:
    """Frames over one TLS stream."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = frames.Decoder(LARGEST_OPEN)
        self._arrived: deque[frames.Frame] = deque()

    async def open_request(self) -> OpenStep:
        """The hello, then the request to open. Raises ProtocolError, VersionMismatch."""
        while (frame := await self.next_frame()) is not None:
            if frame.kind == frames.PUSH:
                require_compatible(frames.check_body(frame.body, Hello).version)
                self.write(frames.PUSH, 0, Hello(software="gsched-agent"))
                continue
            request: OpenStep = frames.check_body(frame.body, OpenStep)
            return request
        raise ProtocolError("closed before a ticket was shown")

    async def next_frame(self) -> frames.Frame | None:
        """None when the client has closed."""
        while not self._arrived:
            received = await self._reader.read(_READ)
            if not received:
                return None
            self._arrived.extend(self._decoder.feed(received))
        return self._arrived.popleft()

    def write(self, kind: int, id: int, message: Any) -> None:
        self._writer.write(frames.encode(kind, id, message))

    async def send(self, kind: int, id: int, message: Any) -> None:
        """Waits while the client does not read."""
        self.write(kind, id, message)
        await self._writer.drain()
