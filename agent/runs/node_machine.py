"""The agent's pure half: handle(event, now) -> effects. Acts towards the wanted set, reports what it confirmed.

No clock, process or socket. Every effect is safe to repeat; each fact is reported until the controller has it
durably, and only the latest fact of a run is told, since each implies those before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from agent.runs.effects import (
    AgentEvent,
    AgentMemory,
    Cleaned,
    Connected,
    Disconnected,
    Effect,
    Exited,
    Forget,
    FoundRun,
    Hangup,
    Opened,
    Prepare,
    Prepared,
    PrepareFailed,
    Received,
    Save,
    Say,
    Signal,
    Start,
    StepDone,
    Stop,
    Ticked,
)
from gsched.clock import Now
from gsched.protocol.link import (
    PROTOCOL_VERSION,
    Acks,
    ActualRun,
    AgentHello,
    Blame,
    HeartbeatAck,
    NeedWhole,
    Orders,
    RunReport,
    StepReport,
    WantedRun,
    Welcome,
)
from gsched.values.ids import Instant, NodeName, RunKey, StepId
from gsched.values.node import Inventory
from gsched.values.run import NodePhase, WantedPhase

_SEQ_BLOCK: Final = 1000  # report numbers are saved ahead in blocks: one synced write for so many reports
_SAY_AGAIN_MS: Final = 10_000
_PURGE_GRACE_S: Final = 30


class LocalRun:
    """One run as it stands on this node."""

    def __init__(self, phase: NodePhase, first: bool) -> None:
        self.phase = phase
        self.first = first
        self.at = Instant(0)  # of the latest fact
        self.preparing = False  # Prepare was given in this life of the agent
        self.started = False
        self.stopping = False
        self.delivered = 0  # signals
        self.exited: Exited | None = None
        self.cleaned: Cleaned | None = None
        self.failed: PrepareFailed | None = None
        self.reported_seq = 0  # of the report that is under way; 0 = none is
        self.reported_at = 0  # boot ms
        self.acked = NodePhase.ORDERED  # the latest phase that the controller has durably


class NodeMachine:
    """Wanted against actual on one node."""

    def __init__(
        self,
        node: NodeName,
        machine_id: str,
        boot_id: str,
        inventory: Inventory,
        stream_address: str,
        memory: AgentMemory,
        found: Sequence[FoundRun] = (),
        owner_uid: int | None = None,
    ) -> None:
        self._node = node
        self._machine_id = machine_id
        self._boot_id = boot_id
        self._inventory = inventory
        self._stream_address = stream_address
        self._memory = memory
        self._seq = memory.next_seq
        self._owner_uid = owner_uid
        self._wanted: dict[RunKey, WantedRun] = {}
        self.runs: dict[RunKey, LocalRun] = {}
        self._steps: dict[tuple[RunKey, StepId], StepDone] = {}  # ends the controller may not have
        self._run_seqs: dict[int, RunKey] = {}
        self._step_seqs: dict[int, tuple[RunKey, StepId]] = {}
        self._steps_said_at = 0
        self.welcomed = False  # in this session
        self._told_wanted = False  # in this life: until then what was found goes on as it is
        self._order_seq = 0
        for run in found:
            self._adopt(run)

    def _adopt(self, found: FoundRun) -> None:
        run = LocalRun(found.phase, found.first)
        run.delivered = found.delivered_signals
        run.exited, run.cleaned, run.failed = found.exited, found.cleaned, found.failed
        run.started = found.phase is not NodePhase.ORDERED and found.phase is not NodePhase.READY
        self.runs[found.key] = run
        for step in found.steps:
            self._steps[step.key, step.step] = step

    def handle(self, event: AgentEvent, now: Now) -> list[Effect]:
        """Take one event; give what is to be done now, in order."""
        effects: list[Effect] = []
        match event:
            case Connected():
                self.welcomed = False
                effects.append(Say(self._hello()))
            case Disconnected():
                self.welcomed = False
            case Received():
                self._received(effects, event.message, now)
            case Ticked():
                self._say_again(effects, now)
            case StepDone():
                self._steps[event.key, event.step] = event
                self._report_step(effects, event)
            case _:
                self._fact(effects, event, now)
        return effects

    # --- the controller

    def _hello(self) -> AgentHello:
        return AgentHello(
            node=self._node,
            version=PROTOCOL_VERSION,
            machine_id=self._machine_id,
            boot_id=self._boot_id,
            highest_term=self._memory.highest_term,
            inventory=self._inventory,
            stream_address=self._stream_address,
            runs=tuple(ActualRun(key, run.phase) for key, run in self.runs.items()),
        )

    def _received(self, effects: list[Effect], message: Welcome | Orders | Acks | HeartbeatAck, now: Now) -> None:
        if isinstance(message, Welcome):
            self._welcome(effects, message, now)
        elif not self.welcomed:
            return  # of a session that is over
        elif isinstance(message, Acks):
            for seq in message.seqs:
                self._acked(effects, seq)
        elif isinstance(message, HeartbeatAck):
            if message.orders > self._order_seq:
                self._ask_whole(effects)
        else:
            self._ordered(effects, message, now)

    def _welcome(self, effects: list[Effect], welcome: Welcome, now: Now) -> None:
        """A term below the highest obeyed is refused; else the whole set counts and everything is told again."""
        if welcome.term < self._memory.highest_term:
            effects.append(Hangup(f"the controller's term {welcome.term} is below {self._memory.highest_term}"))
            return
        if welcome.term > self._memory.highest_term:
            self._memory = replace(self._memory, highest_term=welcome.term)
            effects.append(Save(self._memory))
        self._owner_uid = welcome.owner_uid if welcome.owner_uid is not None else self._owner_uid
        self.welcomed, self._told_wanted, self._order_seq = True, True, 0
        self._want_whole(effects, welcome.whole, now)
        for key, run in list(self.runs.items()):
            self._report(effects, key, run, now)
        for step in self._steps.values():
            self._report_step(effects, step)

    def _ordered(self, effects: list[Effect], orders: Orders, now: Now) -> None:
        """Orders count in their sequence only: a repeated one is dropped, after a gap the whole set is asked for."""
        if orders.term < self._memory.highest_term or orders.seq <= self._order_seq:
            return
        if orders.whole:
            self._order_seq = orders.seq
            self._want_whole(effects, orders.put, now)
            return
        if orders.seq != self._order_seq + 1:
            self._ask_whole(effects)
            return
        self._order_seq = orders.seq
        for key in orders.drop:
            self._wanted.pop(key, None)
            self._act(effects, key, now)
        for wanted in orders.put:
            self._wanted[wanted.key] = wanted
            self._act(effects, wanted.key, now)

    def _ask_whole(self, effects: list[Effect]) -> None:
        """Orders went missing. Asked again at each sign of it: the question or its answer can be lost too."""
        effects.append(Say(NeedWhole()))

    def _want_whole(self, effects: list[Effect], whole: Sequence[WantedRun], now: Now) -> None:
        self._wanted = {wanted.key: wanted for wanted in whole}
        for key in [*self.runs, *(key for key in self._wanted if key not in self.runs)]:
            self._act(effects, key, now)

    # --- acting towards the wanted set

    def _act(self, effects: list[Effect], key: RunKey, now: Now) -> None:
        if not self._told_wanted:
            return
        wanted, run = self._wanted.get(key), self.runs.get(key)
        if wanted is None:
            if run is not None:
                self._stop(effects, key, run, _PURGE_GRACE_S)
            return
        if run is None:
            if not wanted.launch_follows or wanted.phase is WantedPhase.STOP:
                self._begin(effects, key, wanted, now)
            return
        if wanted.phase is WantedPhase.STOP:
            self._stop(effects, key, run, wanted.grace_s)
            return
        if run.phase is NodePhase.ORDERED and not run.preparing and wanted.launch is not None:
            run.preparing = True  # found as a bare directory: the executor adopts it or goes on
            effects.append(Prepare(key, wanted.launch))
        if run.phase is NodePhase.READY and wanted.phase is WantedPhase.START and not run.started:
            run.started = True
            effects.append(Start(key))
        if run.phase is NodePhase.OPEN:
            for number in range(run.delivered, len(wanted.signals)):
                effects.append(Signal(key, number, wanted.signals[number]))
            run.delivered = max(run.delivered, len(wanted.signals))

    def _begin(self, effects: list[Effect], key: RunKey, wanted: WantedRun, now: Now) -> None:
        """A wanted run of which there is nothing here."""
        run = self.runs[key] = LocalRun(NodePhase.ORDERED, wanted.launch is not None and wanted.launch.node_index == 0)
        if wanted.phase is WantedPhase.STOP:
            self._tell_clean(effects, key, run, Cleaned(key, Instant(now.wall)), now)  # it never was here
        elif wanted.launch is None:
            # the controller has its confirmation, and nothing of it is here: the spool was lost
            self._tell_clean(effects, key, run, Cleaned(key, Instant(now.wall), node_failed=True), now)
        else:
            refusal = self._refusal(wanted)
            if refusal is not None:
                self._fail(effects, PrepareFailed(key, Blame.NODE, refusal), run, now)
                return
            run.preparing = True
            effects.append(Prepare(key, wanted.launch))

    def _refusal(self, wanted: WantedRun) -> str | None:
        launch = wanted.launch
        if launch is not None and self._owner_uid is not None and launch.uid != self._owner_uid:
            return f"this agent runs jobs of uid {self._owner_uid} only, the run is user {launch.user}'s"
        return None

    def _stop(self, effects: list[Effect], key: RunKey, run: LocalRun, grace_s: int) -> None:
        if run.stopping or run.phase is NodePhase.CLEAN:
            return
        run.stopping = True
        effects.append(Stop(key, grace_s))

    # --- facts from the executor

    def _fact(
        self, effects: list[Effect], event: Prepared | PrepareFailed | Opened | Exited | Cleaned, now: Now
    ) -> None:
        run = self.runs.get(event.key)
        if run is None or run.phase is NodePhase.CLEAN:
            return
        match event:
            case Prepared():
                self._advance(effects, event.key, run, NodePhase.READY, Instant(now.wall), now)
            case Opened():
                self._advance(effects, event.key, run, NodePhase.OPEN, event.at, now)
            case Exited():
                run.exited = event
                self._advance(effects, event.key, run, NodePhase.EXITED, event.at, now)
            case Cleaned():
                self._tell_clean(effects, event.key, run, event, now)
            case PrepareFailed():
                self._fail(effects, event, run, now)

    def _advance(
        self, effects: list[Effect], key: RunKey, run: LocalRun, phase: NodePhase, at: Instant, now: Now
    ) -> None:
        order = (NodePhase.ORDERED, NodePhase.READY, NodePhase.OPEN, NodePhase.EXITED)
        if order.index(phase) <= order.index(run.phase):
            return
        run.phase, run.at = phase, at
        wanted = self._wanted.get(key)
        starts_now = phase is NodePhase.READY and wanted is not None and wanted.phase is WantedPhase.START
        if not starts_now:  # a run on one node is told both at once: its next fact comes in a moment
            self._report(effects, key, run, now)
        self._act(effects, key, now)

    def _tell_clean(self, effects: list[Effect], key: RunKey, run: LocalRun, cleaned: Cleaned, now: Now) -> None:
        run.cleaned, run.phase, run.at = cleaned, NodePhase.CLEAN, cleaned.at
        self._report(effects, key, run, now)

    def _fail(self, effects: list[Effect], event: PrepareFailed, run: LocalRun, now: Now) -> None:
        run.failed, run.phase, run.at = event, NodePhase.CLEAN, Instant(now.wall)
        self._report(effects, event.key, run, now)

    # --- reports

    def _next_seq(self, effects: list[Effect]) -> int:
        """The next report number; what is saved is always above every number that was used."""
        if self._seq + 1 >= self._memory.next_seq:
            self._memory = replace(self._memory, next_seq=self._seq + 1 + _SEQ_BLOCK)
            effects.append(Save(self._memory))
        seq = self._seq
        self._seq += 1
        return seq

    def _report(self, effects: list[Effect], key: RunKey, run: LocalRun, now: Now) -> None:
        """Tell the latest fact of a run, if the controller does not have it."""
        if not self.welcomed or run.phase is NodePhase.ORDERED or run.acked is run.phase:
            return
        seq = self._next_seq(effects)
        self._run_seqs.pop(run.reported_seq, None)
        self._run_seqs[seq] = key
        run.reported_seq, run.reported_at = seq, now.boot
        report = RunReport(node=self._node, boot_id=self._boot_id, seq=seq, key=key, phase=run.phase, at=run.at)
        if run.exited is not None:
            exited = run.exited
            report = replace(
                report,
                exit_code=exited.exit_code,
                exit_signal=exited.exit_signal,
                timed_out=exited.timed_out,
                elapsed_s=exited.elapsed_s,
                oom_kills=max(exited.oom_kills, run.cleaned.oom_kills if run.cleaned is not None else 0),
            )
        elif run.cleaned is not None:
            cleaned = run.cleaned
            report = replace(
                report,
                timed_out=cleaned.timed_out,
                elapsed_s=cleaned.elapsed_s,
                node_failed=cleaned.node_failed,
                oom_kills=cleaned.oom_kills,
            )
        if run.failed is not None:
            report = replace(report, blame=run.failed.blame, reason=run.failed.reason, text=run.failed.text)
        effects.append(Say(report))

    def _report_step(self, effects: list[Effect], step: StepDone) -> None:
        if not self.welcomed:
            return
        seq = self._next_seq(effects)
        self._step_seqs[seq] = (step.key, step.step)
        report = StepReport(
            node=self._node,
            boot_id=self._boot_id,
            seq=seq,
            key=step.key,
            step=step.step,
            at=step.at,
            exit_code=step.exit_code,
            exit_signal=step.exit_signal,
        )
        effects.append(Say(report))

    def _acked(self, effects: list[Effect], seq: int) -> None:
        step = self._step_seqs.pop(seq, None)
        if step is not None:
            self._steps.pop(step, None)
            return
        key = self._run_seqs.pop(seq, None)
        run = self.runs.get(key) if key is not None else None
        if key is None or run is None or run.reported_seq != seq:
            return  # of a report that a later one has replaced
        run.reported_seq, run.acked = 0, run.phase
        if run.phase is NodePhase.CLEAN:
            self._wanted.pop(key, None)
            del self.runs[key]
            effects.append(Forget(key))

    def _say_again(self, effects: list[Effect], now: Now) -> None:
        """What was told long ago and not acknowledged is told again; while disconnected nothing is."""
        if not self.welcomed:
            return
        for key, run in list(self.runs.items()):
            if run.reported_seq and now.boot - run.reported_at >= _SAY_AGAIN_MS:
                self._report(effects, key, run, now)
        if self._steps and now.boot - self._steps_said_at >= _SAY_AGAIN_MS:
            self._steps_said_at = now.boot
            self._step_seqs.clear()
            for step in self._steps.values():
                self._report_step(effects, step)
