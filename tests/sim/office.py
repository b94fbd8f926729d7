"""One life of the controller in the simulation: machine, gate, a writer and a planner that take their time."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from gsched.clock import Now
from gsched.config.settings import Settings
from gsched.values.ids import Instant
from gschedd.build import decide
from gschedd.core.desk import Desk
from gschedd.events import Event, Outcome, Planned, Tick
from gschedd.gate import Gate
from gschedd.lifecycle.changes import Batch
from gschedd.machine import Machine
from gschedd.store.journal import Deposed
from gschedd.store.memory import MemoryJournal


class Office:
    """A controller process. `release` gets what may leave; a deposed or killed one says nothing more."""

    def __init__(
        self,
        machine_type: type[Machine],
        settings: Settings,
        journal: MemoryJournal,
        random: Random,
        at: Callable[[int, Callable[[], None]], None],
        now: Callable[[], Now],
        release: Callable[[Outcome], None],
        fatal: Callable[[str], None],
        holds_back: bool,
    ) -> None:
        self._journal = journal
        self._random = random
        self._at = at
        self._now = now
        self._release = release
        self._fatal = fatal
        self._holds_back = holds_back
        loaded = journal.open("sim", Instant(now().wall), 300, 7 * 24 * 3600)
        self.term = loaded.term
        self.machine = machine_type(settings, loaded, now(), b"secret", b"")
        self._gate = Gate(loaded.term, loaded.batch)
        self.alive = True
        self.stalled: list[Event] | None = None  # what arrived while the loop stands still
        self.in_flight: Batch | None = None  # with the writer; a crash may come before or after it is durable
        self._planning = self._plan_asked = False
        self._desk = Desk()

    def feed(self, event: Event) -> None:
        """One event for the machine; the outcome goes through the gate."""
        if not self.alive:
            return
        if self.stalled is not None:
            self.stalled.append(event)
            return
        outcome = self.machine.handle(event, self._now())
        if outcome.fatal:
            self._fatal(outcome.fatal)
            return
        if outcome.plan:
            self._plan_asked = True
            self._plan_soon()
        ready = self._gate.take(outcome)
        if not self._holds_back and outcome not in ready:
            self._release(outcome)
            outcome.replies, outcome.sends, outcome.closes = [], [], []
        for one in ready:
            self._release(one)
        self._write_soon()

    def go_on(self) -> None:
        """After a stall: all that arrived, in order. A late loop ticks once, not once for each second it missed."""
        waiting, self.stalled = self.stalled or [], None
        ticked = False
        for event in waiting:
            if not (isinstance(event, Tick) and ticked):
                self.feed(event)
            ticked = ticked or isinstance(event, Tick)

    def _write_soon(self) -> None:
        batch = self._gate.next_batch(self.machine.next_job_id) if self.in_flight is None and self.alive else None
        if batch is None:
            return
        self.in_flight = batch

        def durable() -> None:
            if not self.alive:
                return
            try:
                self._journal.write(batch)
            except Deposed:
                self.alive = False  # another controller took over: the process ends
                return
            self.in_flight = None
            for outcome in self._gate.written(batch.number):
                self._release(outcome)
            self._write_soon()

        self._at(self._random.randint(1, 20), durable)

    def _plan_soon(self) -> None:
        """One pass at a time; what is asked meanwhile asks for one more."""
        if self._planning or not self._plan_asked:
            return
        self._planning, self._plan_asked = True, False
        now = self._now()
        whole = self.machine.pass_input(now)
        decided = self._desk.decide(self.machine.pass_log(now))
        assert decided == decide(whole), "a board that was told of each change gives another plan than a fresh one"

        def planned() -> None:
            if self.alive:
                self._planning = False
                self.feed(Planned(decided))
                self._plan_soon()

        self._at(self._random.randint(1, 30), planned)
