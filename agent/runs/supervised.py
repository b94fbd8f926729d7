"""One run as the executor sees it: the connection to its supervisor, and what of its record was told already.

A supervisor says its whole record at each change, and on connecting; the facts that are new in it become events. So a
first launch, a reconnection and a record read from disk all go the same way.
"""

from __future__ import annotations

import asyncio
import json
import socket
import weakref
from collections.abc import Callable
from typing import Any, Final

from agent.runs.effects import AgentEvent, Cleaned, Exited, FoundRun, Opened, Prepared, PrepareFailed, StepDone
from agent.supervisor import records
from gsched.protocol.link import Blame
from gsched.values.ids import Instant, RunKey, StepId
from gsched.values.run import NodePhase

_READ: Final = 256 * 1024


def facts(key: RunKey, record: dict[str, Any], first: bool) -> list[AgentEvent]:
    """All that a record says has happened, in order."""
    found: list[AgentEvent] = []
    if record.get("phase") == records.READY or "opened" in record:
        found.append(Prepared(key))
    if "failed" in record:
        failed = record["failed"]
        return [*found, PrepareFailed(key, Blame(failed["blame"]), failed["text"], failed["reason"])]
    if "opened" in record:
        found.append(Opened(key, Instant(record["opened"])))
    if first and (end := record.get("exited")):
        at, oom_kills = Instant(end["at"]), end.get("oom_kills", 0)
        found.append(Exited(key, at, end["code"], end["signal"], end["timed_out"], end["elapsed_s"], oom_kills))
    if clean := record.get("clean"):
        node_failed, oom_kills = clean.get("node_failed", False), clean.get("oom_kills", 0)
        at = Instant(clean["at"])
        found.append(Cleaned(key, at, clean["elapsed_s"], clean["timed_out"], node_failed, oom_kills))
    return found


def found_run(key: RunKey, record: dict[str, Any], first: bool, steps: tuple[StepDone, ...]) -> FoundRun:
    """What the agent's pure half is told of a run that was in the spool when the agent started."""
    told = {type(fact): fact for fact in facts(key, record, first)}
    exited, cleaned, failed = told.get(Exited), told.get(Cleaned), told.get(PrepareFailed)
    phase = record.get("phase", records.ORDERED)
    return FoundRun(
        key=key,
        phase=NodePhase.CLEAN if phase == records.FAILED else NodePhase(phase),
        first=first,
        delivered_signals=record.get("signals", 0),
        exited=exited if isinstance(exited, Exited) else None,
        cleaned=cleaned if isinstance(cleaned, Cleaned) else None,
        failed=failed if isinstance(failed, PrepareFailed) else None,
        steps=steps,
    )


class Supervised:
    """A run with (perhaps) a connection. `post` takes its events; `gone` is called when the connection ends."""

    def __init__(
        self, key: RunKey, first: bool, post: Callable[[AgentEvent], None], gone: Callable[[Supervised], None]
    ) -> None:
        self.key = key
        self.first = first
        self.record: dict[str, Any] = {}
        self.launched = False  # by this agent
        self.later: list[dict[str, Any]] = []  # requests that found no connection
        self.steps_done: dict[StepId, StepDone] = {}
        self._told: set[type] = set()
        self._post = post
        self._gone = gone
        self._socket: socket.socket | None = None
        self._buffer = b""
        self._step_waits: dict[int, list[asyncio.Future[str]]] = {}  # answered with "" or why it was refused
        self._step_events: dict[int, weakref.WeakSet[asyncio.Event]] = {}

    @property
    def connected(self) -> bool:
        return self._socket is not None

    @property
    def over(self) -> bool:
        """Nothing of the run is left: clean, or a launch that was undone."""
        return self.record.get("phase") in (records.CLEAN, records.FAILED)

    def attach(self, connection: socket.socket) -> None:
        """Listen to the supervisor from now on."""
        connection.setblocking(False)
        self._socket, self._buffer = connection, b""
        asyncio.get_running_loop().add_reader(connection.fileno(), self._readable)

    def detach(self) -> None:
        """Hang up. The supervisor goes on."""
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None

    def ask(self, **request: Any) -> bool:
        """Send one request; False if there is nobody to hear it."""
        if self._socket is None:
            return False
        try:
            line = json.dumps(request).encode() + b"\n"
            return self._socket.send(line) == len(line)
        except OSError:
            return False  # the end of the connection is heard by reading

    def learn(self, record: dict[str, Any], quiet: bool = False) -> None:
        """Take a record; post the facts in it that are new. quiet: they are told in another way."""
        if record.get("seq", 0) < self.record.get("seq", 0):
            return
        self.record = record
        for fact in facts(self.key, record, self.first):
            if type(fact) not in self._told:
                self._told.add(type(fact))
                if not quiet:
                    self._post(fact)

    def repeat(self) -> None:
        """Post all facts again: an effect was given a second time."""
        for fact in facts(self.key, self.record, self.first):
            self._post(fact)

    # --- steps

    def step_answer(self, step: StepId) -> asyncio.Future[str]:
        """What the supervisor will say to open_step: "" or why not."""
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._step_waits.setdefault(step, []).append(future)
        return future

    def step_event(self, step: StepId) -> asyncio.Event:
        """A new event that is set at each change of the step; kept as long as its taker keeps it."""
        event = asyncio.Event()
        self._step_events.setdefault(step, weakref.WeakSet()).add(event)
        return event

    def learn_step(self, done: StepDone, quiet: bool = False) -> None:
        if done.step not in self.steps_done:
            self.steps_done[done.step] = done
            if not quiet:
                self._post(done)

    def wake_steps(self) -> None:
        """Something that concerns every step has changed, such as the supervisor's death."""
        for step in list(self._step_events):
            self._wake(step)
        for step in list(self._step_waits):
            self._answer(step, "the run has ended")

    # --- the connection

    def _readable(self) -> None:
        assert self._socket is not None
        try:
            data = self._socket.recv(_READ)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            self._heard(json.loads(line))
        if not data:
            self.detach()
            self._gone(self)

    def _heard(self, message: dict[str, Any]) -> None:
        match message["event"]:
            case "hello" | "state":
                self.learn(message["record"])
            case "task":
                self._wake(message["step"])
            case "step_open":
                self._answer(message["step"], "")
            case "step_refused":
                self._answer(message["step"], message["text"])
            case "step_done":
                step = StepId(message["step"])
                at = Instant(message["at"])
                self.learn_step(StepDone(self.key, step, at, message["code"], message["signal"]))
                self._wake(step)

    def _answer(self, step: int, text: str) -> None:
        for future in self._step_waits.pop(step, ()):
            if not future.done():
                future.set_result(text)

    def _wake(self, step: int) -> None:
        for event in tuple(self._step_events.get(step, ())):
            event.set()
