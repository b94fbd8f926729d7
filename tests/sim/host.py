"""A pretended node: its disk, its processes, its supervisors, and an agent around the real pure half.

What survives what is as on a real host: the disk survives all, supervisors survive the agent, nothing running
survives a loss of power.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from msgspec import Struct

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
    Save,
    Say,
    Signal,
    Start,
    Stop,
    Ticked,
)
from agent.runs.node_machine import NodeMachine
from gsched.clock import Now
from gsched.protocol.link import AgentMessage, Blame, LaunchSpec
from gsched.values.ids import Instant, NodeName, RunKey
from gsched.values.node import Gpu, Inventory
from gsched.values.run import NodePhase


class Plan(Struct):
    """How a run's script behaves, drawn from its job."""

    duration_ms: int
    exit_code: int
    ignores_term: bool


class Directory:
    """One run directory: what its supervisor has written."""

    def __init__(self, launch: LaunchSpec, boot_id: str) -> None:
        self.launch = launch
        self.boot_id = boot_id
        self.phase = NodePhase.ORDERED
        self.delivered = 0
        self.exited: Exited | None = None
        self.cleaned: Cleaned | None = None


class Process:
    """A supervisor and, once started, what it runs for the user."""

    def __init__(self, key: RunKey, gpus: frozenset[int], node: str) -> None:
        self.key = key
        self.gpus = gpus
        self.node = node
        self.user_since: int | None = None  # virtual ms
        self.stopping = False


class Host:
    """One machine. `post` is how its running agent hears of things; a dead agent hears nothing."""

    def __init__(
        self,
        name: str,
        gpus: int,
        random: Random,
        at: Callable[[int, Callable[[], None]], None],
        now: Callable[[], Now],
        behaviour: Callable[[RunKey], Plan],
        launched: Callable[[Host, RunKey, LaunchSpec], None],
        send: Callable[[Host, AgentMessage], None],
        hangup: Callable[[Host], None],
    ) -> None:
        self.name = NodeName(name)
        self.inventory = Inventory(
            cpus=64,
            memory_mib=512_000,
            gpus=tuple(Gpu(i, f"GPU-{name}-{i}", "H100", 80_000) for i in range(gpus)),
        )
        self._random = random
        self._at = at
        self._now = now
        self._behaviour = behaviour
        self._launched = launched
        self._send = send
        self._hangup = hangup
        self.powered = True
        self.boot = 1
        self.disk: dict[RunKey, Directory] = {}
        self.memory = AgentMemory()
        self.processes: list[Process] = []
        self.moves = 0  # grows whenever what runs here changes
        self._asked: set[RunKey] = set()  # prepared, or about to be, in this life of the agent; not stopped since
        self.agent: NodeMachine | None = None
        self.life = 0  # of the agent: what was posted for an earlier one is lost
        self.fail_prepare = 0.0
        self.blame = Blame.NODE
        self.crash_in_prepare = 0.0
        self.restart: Callable[[Host], None] = lambda _host: None  # how the world brings the agent back
        self.test_and_set = True
        self.counted: dict[RunKey, int] = {}  # what the supervisor measured, seconds

    # --- power and agent

    @property
    def boot_id(self) -> str:
        return f"{self.name}-boot-{self.boot}"

    def start_agent(self) -> None:
        """Start the agent: it adopts what it finds."""
        if not self.powered or self.agent is not None:
            return
        self.life += 1
        self._asked.clear()
        self.agent = NodeMachine(
            self.name, f"machine-{self.name}", self.boot_id, self.inventory, "127.0.0.1:1", self.memory, self._found()
        )

    def kill_agent(self) -> None:
        self.agent = None
        self.life += 1
        self._hangup(self)

    def power_off(self) -> None:
        self.powered = False
        self.moves += 1
        self.processes.clear()
        self.kill_agent()

    def power_on(self) -> None:
        if not self.powered:
            self.powered = True
            self.boot += 1
            self.start_agent()

    def _found(self) -> list[FoundRun]:
        found = []
        for key, directory in self.disk.items():
            alive = self._process(key) is not None
            if not alive and directory.phase not in (NodePhase.ORDERED, NodePhase.CLEAN):
                self._record_clean(key, directory, node_failed=directory.exited is None)
            found.append(
                FoundRun(
                    key=key,
                    phase=directory.phase,
                    first=directory.launch.node_index == 0,
                    delivered_signals=directory.delivered,
                    exited=directory.exited,
                    cleaned=directory.cleaned,
                )
            )
        return found

    def post(self, event: AgentEvent) -> None:
        """Give the agent an event, if it lives; carry out what it says."""
        if self.agent is None:
            return
        life = self.life
        for effect in self.agent.handle(event, self._now()):
            if self.life != life:
                return  # it crashed between two effects
            self._carry_out(effect)

    def connected(self) -> None:
        self.post(Connected())

    def disconnected(self) -> None:
        self.post(Disconnected())

    @property
    def welcomed(self) -> bool:
        """Whether the agent has heard the wanted set in this session."""
        return self.agent is not None and self.agent.welcomed

    def tick(self) -> None:
        self.post(Ticked())

    def _later(self, low: int, high: int, act: Callable[[], None]) -> None:
        """Do something in a while, if the power stays on."""
        boot = self.boot

        def do() -> None:
            if self.powered and self.boot == boot:
                act()

        self._at(self._random.randint(low, high), do)

    def _as_agent(self, low: int, high: int, act: Callable[[], None]) -> None:
        """Do something in a while, if this agent still lives then."""
        life = self.life
        self._later(low, high, lambda: act() if self.life == life else None)

    def _process(self, key: RunKey) -> Process | None:
        return next((p for p in self.processes if p.key == key), None)

    # --- effects

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Say():
                self._send(self, effect.message)
            case Save():
                self.memory = effect.memory
            case Prepare():
                self._asked.add(effect.key)
                self._as_agent(1, 30, lambda: self._prepare(effect))
            case Start():
                self._later(1, 10, lambda: self._start(effect.key))
            case Stop():
                self._later(1, 10, lambda: self._stop(effect.key, effect.grace_s))
            case Signal():
                if effect.key in self.disk:
                    self.disk[effect.key].delivered = effect.number + 1
            case Forget():
                self.disk.pop(effect.key, None)
            case Hangup():
                self._hangup(self)

    def _prepare(self, effect: Prepare) -> None:
        """Make the directory, start the supervisor, hear that it is ready: a crash may come between any two."""
        key = effect.key
        if key not in self._asked:
            return  # stopped meanwhile: one thing after another for each run
        if self.test_and_set and self._process(key) is not None:
            self._later(1, 20, lambda: self._ready(key))  # its supervisor lives: adopted
            return
        if self._random.random() < self.fail_prepare:
            self.disk.pop(key, None)
            self.post(PrepareFailed(key, self.blame, "the disk said no"))
            return
        self.disk[key] = Directory(effect.launch, self.boot_id)
        if self._crashes():
            return
        self._as_agent(1, 20, lambda: self._start_supervisor(key))

    def _start_supervisor(self, key: RunKey) -> None:
        directory = self.disk.get(key)
        if directory is None or key not in self._asked:
            return
        if self._process(key) is None or not self.test_and_set:
            self.moves += 1
            self.processes.append(Process(key, frozenset(directory.launch.gpu_indices), self.name))
        self._crashes()
        self._later(1, 2000, lambda: self._ready(key))

    def _ready(self, key: RunKey) -> None:
        directory, process = self.disk.get(key), self._process(key)
        if directory is None or process is None or process.stopping:
            return
        if directory.phase is NodePhase.ORDERED:
            directory.phase = NodePhase.READY
        self.post(Prepared(key))

    def _crashes(self) -> bool:
        """Whether the agent dies right here."""
        if self._random.random() >= self.crash_in_prepare:
            return False
        self.restart(self)
        return True

    def _start(self, key: RunKey) -> None:
        """Open the run; on its first node start the script."""
        directory, process = self.disk.get(key), self._process(key)
        if directory is None or process is None or process.stopping or directory.phase is not NodePhase.READY:
            return
        directory.phase = NodePhase.OPEN
        self.moves += 1
        for one in self.processes:  # with a planted bug there may be two
            if one.key == key and one.user_since is None:
                one.user_since = self._now().boot
        self._launched(self, key, directory.launch)
        self.post(Opened(key, Instant(self._now().wall)))
        if directory.launch.node_index == 0:
            plan = self._behaviour(key)
            limit_ms = 1000 * directory.launch.time_limit_s
            timed_out = bool(limit_ms) and plan.duration_ms > limit_ms
            wait = min(plan.duration_ms, limit_ms) if limit_ms else plan.duration_ms
            code = 0 if timed_out else plan.exit_code
            self._later(wait, wait, lambda: self._exit(key, code, 15 if timed_out else 0, timed_out))

    def _exit(self, key: RunKey, code: int, signal: int, timed_out: bool) -> None:
        directory, process = self.disk.get(key), self._process(key)
        if directory is None or process is None or directory.exited is not None or process.stopping:
            return
        self._record_exit(key, code, signal, timed_out)
        self.post(self.disk[key].exited)
        process.stopping = True
        self._later(1, 2000, lambda: self._end(key))

    def _record_exit(self, key: RunKey, code: int, signal: int, timed_out: bool) -> None:
        directory, process = self.disk[key], self._process(key)
        assert process is not None
        elapsed = (self._now().boot - process.user_since) // 1000 if process.user_since is not None else 0
        directory.phase = NodePhase.EXITED
        directory.exited = Exited(key, Instant(self._now().wall), code, signal, timed_out, elapsed)
        self.counted[key] = elapsed

    def _stop(self, key: RunKey, grace_s: int) -> None:
        directory, process = self.disk.get(key), self._process(key)
        self._asked.discard(key)
        if directory is None:
            self.post(Cleaned(key, Instant(self._now().wall)))
            return
        if directory.phase is NodePhase.CLEAN:
            if directory.cleaned is not None:
                self.post(directory.cleaned)
            return
        if process is None:
            self._end(key)
            return
        if process.stopping:
            return
        process.stopping = True
        wait = 1000 * grace_s if self._behaviour(key).ignores_term else 50
        self._later(wait, wait, lambda: self._ended_by_stop(key))

    def _ended_by_stop(self, key: RunKey) -> None:
        directory = self.disk.get(key)
        if directory is None:
            return
        if directory.launch.node_index == 0 and directory.phase is NodePhase.OPEN and directory.exited is None:
            self._record_exit(key, 0, 15, False)
        self._end(key)

    def _end(self, key: RunKey) -> None:
        """Nothing of the run is left; the record says so."""
        self.processes = [p for p in self.processes if p.key != key]
        self.moves += 1
        directory = self.disk.get(key)
        if directory is not None and directory.phase is not NodePhase.CLEAN:
            self._record_clean(key, directory, node_failed=False)
        if directory is not None and directory.cleaned is not None:
            self.post(directory.cleaned)

    def _record_clean(self, key: RunKey, directory: Directory, node_failed: bool) -> None:
        directory.phase = NodePhase.CLEAN
        elapsed = directory.exited.elapsed_s if directory.exited is not None else 0
        directory.cleaned = Cleaned(key, Instant(self._now().wall), elapsed_s=elapsed, node_failed=node_failed)
