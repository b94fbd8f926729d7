"""The one loop around the machine: events in; changes to the writer; replies, orders and passes out when they may.

Everything here runs on the event loop's thread. What is concurrent (the writer, the planner, sockets) comes back as a
call on this thread. The only `await` is for the next second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

import structlog
from msgspec import Struct
from msgspec.structs import replace

from gsched.clock import Clock, Now
from gsched.errors import GschedError, Unavailable
from gsched.protocol.link import Heartbeat, NeedWhole
from gsched.protocol.messages import (
    ExplainJob,
    JobPage,
    JobShown,
    ListJobs,
    ListNodes,
    ListPriorities,
    ListReservations,
    NodePage,
    Ping,
    Pong,
    ReservationPage,
    ShowJob,
    ShowTopology,
    TakeSnapshot,
    TopologyShown,
    TryJob,
)
from gsched.values.ids import BatchNo, JobId
from gschedd.core.inputs import PassLog, Plan
from gschedd.events import (
    AgentArrived,
    AgentLeft,
    AgentSaid,
    Call,
    Close,
    Event,
    Inquiry,
    Outcome,
    Planned,
    Reply,
    Send,
    Tick,
)
from gschedd.gate import Gate
from gschedd.lifecycle.changes import Batch

TICK_S: Final = 1.0
LATE_S: Final = 0.1  # the loop was held up for so long: worth a line in the log
_DRAIN_S: Final = 5.0  # at the end, for what is not durable yet
_QUERIES: Final = (
    ListJobs,
    ListNodes,
    ShowJob,
    ShowTopology,
    Ping,
    ExplainJob,
    ListPriorities,
    ListReservations,
    TakeSnapshot,
    TryJob,
)

log = structlog.get_logger("gschedd.loop")


class MachineLike(Protocol):
    """What the loop asks of the machine."""

    @property
    def next_job_id(self) -> JobId: ...

    def handle(self, event: Event, now: Now) -> Outcome: ...

    def pass_log(self, now: Now) -> PassLog: ...


class Outlets(Struct, frozen=True):
    """Where what the machine says goes, once it may leave."""

    answer: Callable[[Reply], None]
    send: Callable[[Send], None]
    close: Callable[[Close], None]
    submit: Callable[[Batch], None]  # to the writer
    want_plan: Callable[[], None]
    inquire: Callable[[Inquiry], None]  # its answer comes as a Reply, later


class Vitals(Struct):
    """How the loop does; for metrics."""

    late_s: float = 0.0  # how much later than due the last tick was
    late_s_max: float = 0.0
    events: int = 0
    batches: int = 0


class Controller:
    """Feeds the machine and carries out what it says. `run` raises what ended the daemon, if it was not `stop`."""

    def __init__(self, machine: MachineLike, gate: Gate, clock: Clock) -> None:
        self._machine = machine
        self._gate = gate
        self._clock = clock
        self._out: Outlets | None = None
        self._ended: asyncio.Future[None] | None = None
        self._failure: BaseException | None = None
        self._writing = False  # the writer has a batch, or is about to get one
        self._cause = ""  # why the store does not answer; "" = it does
        self._later: dict[Event, None] = {}  # must not be lost, and may change something: fed when the store is back
        self._queries: set[int] = set()  # calls that only asked, not answered yet
        self.vitals = Vitals()

    def connect(self, outlets: Outlets) -> None:
        """Say where things go; before `run`."""
        self._out = outlets

    # --- what comes in

    def feed(self, event: Event) -> None:
        """Take one event."""
        if self._failure is not None:
            return
        self.vitals.events += 1
        if self._cause and not self._may_pass(event):
            return
        if isinstance(event, Call) and isinstance(event.request, _QUERIES):
            self._queries.add(event.id)
        try:
            outcome = self._machine.handle(event, self._clock.now())
        except Exception as error:  # a bug, and the state may be half changed: begin again from what is committed
            self.fail(error)
            return
        if outcome.fatal:
            self.fail(GschedError(outcome.fatal))
            return
        if outcome.plan:
            self.outlets.want_plan()  # a plan's consequences wait for the writer themselves
        if self._cause and not outcome.changes:
            self._let_out(outcome)
            return
        for may_go in self._gate.take(outcome):
            self._let_out(may_go)
        self._write_soon()

    def planned(self, plan: Plan | BaseException) -> None:
        """A pass has ended."""
        if isinstance(plan, BaseException):
            self.fail(plan)
        else:
            self.feed(Planned(plan))

    def pass_log(self) -> PassLog:
        return self._machine.pass_log(self._clock.now())

    def written(self, number: BatchNo) -> None:
        """The batch is durable."""
        self._writing = False
        came_back, self._cause = bool(self._cause), ""
        for outcome in self._gate.written(number):
            self._let_out(outcome)
        if came_back:
            log.info("store.back", batch=number)
            later, self._later = self._later, {}
            for event in later:
                self.feed(event)
            self.outlets.want_plan()
        self._write_soon()

    def unconfirmed(self, cause: str) -> None:
        """The store does not answer. Changes are refused from now on; queries are answered with a flag."""
        log.error("store.unavailable", cause=cause)
        self._cause = cause
        for outcome in self._gate.take_out(self._only_asked):
            self._let_out(outcome)

    def fail(self, error: BaseException) -> None:
        """End the daemon: memory can't be trusted, or must not be served."""
        if self._failure is None:
            self._failure = error
            if self._ended is not None and not self._ended.done():
                self._ended.set_exception(error)

    # --- its life

    async def run(self) -> None:
        """Tick until `stop`; raise what `fail` was given."""
        self._ended = asyncio.get_running_loop().create_future()
        if self._failure is not None:
            raise self._failure
        self.outlets.want_plan()
        ticking = asyncio.create_task(self._tick(), name="tick")
        try:
            await self._ended
        finally:
            ticking.cancel()

    def stop(self) -> None:
        """Make `run` return."""
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    async def settle(self) -> bool:
        """Wait a little for what was applied to become durable, so that its replies leave; False if it did not."""
        deadline = asyncio.get_running_loop().time() + _DRAIN_S
        while not self._gate.settled and self._failure is None and not self._cause:
            if asyncio.get_running_loop().time() > deadline:
                return False
            await asyncio.sleep(0.005)
        return self._gate.settled

    @property
    def outlets(self) -> Outlets:
        assert self._out is not None, "connect comes first"
        return self._out

    # --- inside

    async def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            due += TICK_S
            await asyncio.sleep(due - loop.time())
            late = loop.time() - due
            self.vitals.late_s, self.vitals.late_s_max = late, max(late, self.vitals.late_s_max)
            if late > LATE_S:
                log.warning("loop.late", late_s=round(late, 3))
                due = loop.time()
            self.feed(Tick())

    def _may_pass(self, event: Event) -> bool:
        """While the store is away: only what changes nothing. The rest is refused, repeated by its sender, or kept."""
        match event:
            case Call():
                if isinstance(event.request, _QUERIES):
                    return True
                self.outlets.answer(Reply(event.id, _refusal(self._cause)))
            case AgentArrived():
                self.outlets.close(Close(event.session, f"the store does not answer ({self._cause}): come again"))
            case AgentSaid():
                if isinstance(event.message, NeedWhole):
                    self._later[event] = None
                return isinstance(event.message, Heartbeat)  # reports are sent again until they are acknowledged
            case AgentLeft():
                self._later[event] = None
            case Planned() | Tick():
                pass  # another pass is asked for, and a long second counts as the loop's own lateness
        return False

    def _only_asked(self, outcome: Outcome) -> bool:
        calls = [*(reply.call for reply in outcome.replies), *(inquiry.call for inquiry in outcome.inquiries)]
        return (
            not (outcome.changes or outcome.sends or outcome.closes)
            and bool(calls)
            and all(call in self._queries for call in calls)
        )

    def _let_out(self, outcome: Outcome) -> None:
        for reply in outcome.replies:
            if reply.call in self._queries:
                self._queries.discard(reply.call)
                if self._cause:
                    reply = _flagged(reply)
            self.outlets.answer(reply)
        for inquiry in outcome.inquiries:
            self._queries.discard(inquiry.call)
            self.outlets.inquire(replace(inquiry, unconfirmed=bool(self._cause)))
        for send in outcome.sends:
            self.outlets.send(send)
        for close in outcome.closes:
            self.outlets.close(close)

    def _write_soon(self) -> None:
        """Hand the writer one batch at a time, at the end of this turn of the loop: all that waits goes together."""
        if not self._writing and not self._gate.settled:
            self._writing = True
            asyncio.get_running_loop().call_soon(self._write)

    def _write(self) -> None:
        batch = self._gate.next_batch(self._machine.next_job_id)
        if batch is None:
            self._writing = False
            return
        self.vitals.batches += 1
        self.outlets.submit(batch)


def _flagged(reply: Reply) -> Reply:
    """The answer to a query while the store is away: a crash may take back what it shows."""
    if isinstance(reply.body, JobPage | JobShown | NodePage | ReservationPage | TopologyShown | Pong):
        return Reply(reply.call, replace(reply.body, unconfirmed=True))
    return reply


def _refusal(cause: str) -> Unavailable:
    return Unavailable(f"the controller cannot write to its store now ({cause}); nothing was changed, try again later")
