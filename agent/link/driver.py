"""Feeds the pure half, one event at a time, and carries out what it says, in order."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Final, Protocol

import structlog

from agent.runs.effects import AgentEvent, Effect, Hangup, Say, Ticked
from agent.runs.node_machine import NodeMachine
from gsched.clock import Clock
from gsched.protocol.link import AgentMessage

_TICK_S: Final = 1.0


class Outlet(Protocol):
    """The way to the controller."""

    def say(self, message: AgentMessage) -> None:
        """Send it, if connected; else it is dropped (it will be said again)."""

    def hang_up(self, why: str) -> None: ...


class Hands(Protocol):
    """Who carries out what concerns this node. What fails comes back as an event; only Save may raise."""

    def carry_out(self, effect: Effect) -> None: ...


class Mailbox:
    """Events on their way to the pure half. For the event loop's thread only."""

    def __init__(self) -> None:
        self._events: deque[tuple[AgentEvent, asyncio.Future[None] | None]] = deque()
        self._news = asyncio.Event()

    def post(self, event: AgentEvent) -> None:
        """Leave an event; it is handled soon."""
        self._events.append((event, None))
        self._news.set()

    async def deliver(self, event: AgentEvent) -> None:
        """Leave an event and wait until all that follows from it was carried out."""
        handled = asyncio.get_running_loop().create_future()
        self._events.append((event, handled))
        self._news.set()
        await handled

    async def take(self) -> tuple[AgentEvent, asyncio.Future[None] | None]:
        while not self._events:
            self._news.clear()
            await self._news.wait()
        return self._events.popleft()


class Driver:
    """The loop around the pure half."""

    def __init__(self, machine: NodeMachine, mailbox: Mailbox, hands: Hands, outlet: Outlet, clock: Clock) -> None:
        self._machine = machine
        self._mailbox = mailbox
        self._hands = hands
        self._outlet = outlet
        self._clock = clock
        self._log: Any = structlog.get_logger()

    async def run(self) -> None:
        """Until cancelled. An error of the pure half or of the spool's disk ends the agent; supervisors go on."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._tick(), name="tick")
            group.create_task(self._handle(), name="handle")

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            await self._mailbox.deliver(Ticked())

    async def _handle(self) -> None:
        while True:
            event, handled = await self._mailbox.take()
            for effect in self._machine.handle(event, self._clock.now()):
                self._carry_out(effect)
            if handled is not None and not handled.done():
                handled.set_result(None)

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Say():
                self._outlet.say(effect.message)
            case Hangup():
                self._log.warning("link.hang_up", why=effect.why)
                self._outlet.hang_up(effect.why)
            case _:
                self._hands.carry_out(effect)
