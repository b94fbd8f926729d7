"""Carries out the effects of the agent's pure half: run directories, supervisors, requests to them.

What went wrong becomes an event that says whose failure it is. A run outlives the executor; `adopt` finds it again.
One thread, on the event loop; only the hunt for what a dead supervisor left runs beside it.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import secrets
import socket as sockets
import time
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog

from agent.isolation.cgroups import Limits, set_up
from agent.isolation.cores import CoreBook
from agent.runs.effects import (
    AgentEvent,
    AgentMemory,
    Cleaned,
    Effect,
    Forget,
    FoundRun,
    Prepare,
    PrepareFailed,
    Save,
    Signal,
    Start,
    StepDone,
    Stop,
)
from agent.runs.environment import job_environment, nodes_own
from agent.runs.launcher import Launcher
from agent.runs.spool import GONE, Spool
from agent.runs.supervised import Supervised, found_run
from agent.supervisor import processes, records
from gsched.auth.tickets import Ticket
from gsched.config.settings import AgentSettings
from gsched.errors import Conflict, GschedError, NotFound, NotPermitted, Unavailable
from gsched.protocol.link import Blame, LaunchSpec
from gsched.protocol.stream import OpenStep
from gsched.spec.filenames import DEFAULT_OUTPUT, FileFields, fill_pattern
from gsched.values.ids import Instant, NodeName, RunKey, StepId
from gsched.values.node import Inventory

log = structlog.get_logger()

_AS_SHIPPED: Final = AgentSettings()
_RECONNECT_S: Final = 0.05  # between tries to reach a supervisor that lives but does not listen yet
_HUNT_PAUSE_S: Final = 0.05
_STEP_ANSWER_S: Final = 60.0


class Executor:
    """The acting half of an agent. `socket`: the agent's own, for commands inside jobs."""

    def __init__(
        self,
        spool: Path,
        node: NodeName,
        post: Callable[[AgentEvent], None],
        socket: str = "",
        boot_id: str = "",
        settings: AgentSettings = _AS_SHIPPED,
        gpu_minors: Mapping[int, int] | None = None,
        inventory: Inventory | None = None,
    ) -> None:
        self.spool = Spool(spool)
        self._node = node
        self._take = post
        self._socket = socket
        self._boot_id = boot_id or Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        self._groups = set_up(settings, spool)
        self._pids = settings.pids_per_run
        self._gpu_minors = gpu_minors  # device node of each GPU by its index; None = not known for all: none is shut
        self._cores = CoreBook(inventory, os.sched_getaffinity(0))
        self._launcher = Launcher()
        self._sweeper = ThreadPoolExecutor(1, "sweeper")
        self._runs: dict[RunKey, Supervised] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    # --- life

    def adopt(self) -> tuple[FoundRun, ...]:
        """Find the runs of an earlier agent and go on with them. Call on the running loop, before any effect."""
        try:
            self._launcher.start()
        except OSError as error:
            log.error("supervisor.template", error=str(error))
        for gone in self.spool.set_aside_before():
            self._sweeper.submit(self._sweep, gone)
        for name in self._groups.names() - {str(key) for key in self.spool.found()}:
            self._sweeper.submit(self._groups.remove, name)
        found = []
        for key in self.spool.found():
            launch = self.spool.launch_of(key)
            run = self._runs[key] = self._new_run(key, bool(launch.get("first")))
            run.learn(records.read_record_at(self.spool.record_path(key)), quiet=True)
            if launch and launch["boot_id"] != self._boot_id and not run.over:
                self._bury(run, quiet=True)  # of another boot: nothing of it can be left
            if not run.over:
                self._cores.restore(key, launch.get("cores", ()))
            for done in self._recorded_steps(key):
                run.learn_step(done, quiet=True)
            found.append(found_run(key, run.record, run.first, tuple(run.steps_done.values())))
            log.info("run.found", job=key.job, run=key.run, phase=run.record.get("phase", records.ORDERED))
            if launch and not run.over:
                self._reach(run)
        return tuple(found)

    def close(self) -> None:
        """Let go of every run; they go on without us."""
        for run in self._runs.values():
            run.detach()
        for task in self._tasks:
            task.cancel()
        self._launcher.close()
        self._sweeper.shutdown(wait=True)
        self._groups.close()

    def carry_out(self, effect: Effect) -> None:
        """Act. Safe to repeat. Say and Hangup are the link's and do nothing here.

        Never raises but for Save: an agent that cannot remember its term must not go on.
        """
        match effect:
            case Prepare():
                self._prepare(effect.key, effect.launch)
            case Start():
                self._ask(effect.key, do="start")
            case Stop():
                self._stop(effect.key, effect.grace_s)
            case Signal():
                self._ask(effect.key, do="signal", number=effect.number, signal=effect.signal)
            case Forget():
                self._forget(effect.key)
            case Save():
                self.spool.save_memory(effect.memory)
            case _:
                pass

    def memory(self) -> AgentMemory:
        """What was saved last."""
        return self.spool.load_memory()

    # --- steps

    async def open_step(self, key: RunKey, step: StepId, request: OpenStep, ticket: Ticket) -> None:
        """Start a step's tasks here, as the run's user; the same step again changes nothing.

        ticket: a good one; that it is for the run's user is seen here. Raises NotFound, NotPermitted, Conflict,
        Unavailable.
        """
        run = self._runs.get(key)
        if run is None:
            raise NotFound(f"job {key.job} has no run {key.run} on node {self._node}")
        launch = self.spool.launch_of(key)
        if launch.get("uid") != ticket.uid:
            raise NotPermitted(f"job {key.job} is not of uid {ticket.uid}")
        if step in run.steps_done or self.task_ends(key, step):
            return  # it was opened, and perhaps by an agent before this one
        if run.over:
            raise Conflict(f"run {key.run} of job {key.job} on node {self._node} has ended")
        directory = self.spool.directory(key) / "steps" / str(step)
        if not (directory / "open").exists():
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            records.write_json(f"{directory}/open", _step_request(request, nodes_own(launch["environment"])))
        answer = run.step_answer(step)
        if not run.ask(do="open_step", step=step):
            raise Unavailable(f"the supervisor of job {key.job} on node {self._node} does not answer")
        try:
            refusal = await asyncio.wait_for(answer, _STEP_ANSWER_S)
        except TimeoutError:
            raise Unavailable(
                f"the supervisor of job {key.job} on node {self._node} did not open the step in {_STEP_ANSWER_S:g} s"
            ) from None
        if refusal:
            raise Conflict(f"step {step} of job {key.job} on node {self._node}: {refusal}")

    def has_step(self, key: RunKey, step: StepId) -> bool:
        """Whether the step was begun here; until its run is forgotten."""
        return (self.spool.directory(key) / "steps" / str(step) / "open").exists()

    def live_steps(self) -> list[tuple[RunKey, StepId]]:
        """Steps that were begun here and have not ended."""
        live: list[tuple[RunKey, StepId]] = []
        for key, run in self._runs.items():
            directory = self.spool.directory(key) / "steps"
            begun = [StepId(int(path.name)) for path in directory.iterdir()] if directory.exists() else []
            live.extend((key, step) for step in sorted(begun) if not run.over and step not in run.steps_done)
        return live

    def signal_step(self, key: RunKey, step: StepId, signal: int) -> None:
        """Send a signal to every process of a step here."""
        self._ask(key, do="signal_step", step=step, signal=signal)

    def step_output(self, key: RunKey, step: StepId, rank: int, error: bool) -> Path:
        """The file that a task's output (or error output) goes to; it may not be there yet."""
        return self.spool.directory(key) / "steps" / str(step) / f"{rank}.{'err' if error else 'out'}"

    def task_ends(self, key: RunKey, step: StepId) -> dict[int, tuple[int, int]]:
        """The ends (code, signal) of a step's tasks on this node so far, by rank. All they wrote is in their files."""
        return records.read_ends(f"{self.spool.directory(key)}/steps/{step}/ends")

    def on_step_change(self, key: RunKey, step: StepId) -> asyncio.Event:
        """A new event, set whenever a task of the step ends here; its taker clears it. Raises NotFound."""
        if (run := self._runs.get(key)) is None:
            raise NotFound(f"job {key.job} has no run {key.run} on node {self._node}")
        return run.step_event(step)

    # --- effects

    def _prepare(self, key: RunKey, launch: LaunchSpec) -> None:
        run = self._runs.get(key)
        if run is not None and (run.connected or run.record):
            run.repeat()  # the directory is the test-and-set: what is there is the run
            return
        run = self._runs[key] = self._new_run(key, launch.node_index == 0)
        if not _port_is_free(launch.port):
            text = f"rendezvous port {launch.port} of node {self._node} is in use by a process that is not of a job"
            self._undo(run, PrepareFailed(key, Blame.SHARED, text))  # the next try gets another port
            return
        try:
            if not self.spool.launch_of(key):  # else a supervisor that an earlier agent asked for may just have read it
                self.spool.make(key, self._launch_file(key, launch), launch.script)
            run.launched = True
            run.attach(self._launcher.launch(str(self.spool.directory(key)), launch.uid != os.geteuid()))
        except (OSError, GschedError, ValueError) as error:
            text = f"node {self._node} could not prepare the run: {error}"
            log.error("run.prepare", job=key.job, run=key.run, error=str(error))
            self._undo(run, PrepareFailed(key, Blame.NODE, text))

    def _stop(self, key: RunKey, grace_s: int) -> None:
        run = self._runs.get(key)
        if run is None:
            self._post(Cleaned(key, _wall()))
        elif run.over:
            run.repeat()
        elif not run.connected and not self.spool.launch_of(key):
            self._undo(run, Cleaned(key, _wall()))  # a bare directory: no supervisor was ever asked for
        else:
            self._ask(key, do="stop", grace_s=grace_s)

    def _forget(self, key: RunKey) -> None:
        run = self._runs.pop(key, None)
        self._cores.give_back(key)
        if run is not None:
            run.detach()
        try:
            gone = self.spool.set_aside(key)
            if gone is not None:
                self._sweeper.submit(self._sweep, gone)
        except OSError as error:
            log.error("run.forget", job=key.job, run=key.run, error=str(error))

    def _sweep(self, gone: Path) -> None:
        try:
            self._groups.remove(gone.name.removeprefix(GONE))
            self.spool.sweep(gone)
        except OSError as error:
            log.error("run.sweep", directory=str(gone), error=str(error))

    def _ask(self, key: RunKey, **request: Any) -> None:
        run = self._runs.get(key)
        if run is None or run.over:
            log.info("run.not_asked", job=key.job, run=key.run, request=request["do"])
        elif not run.ask(**request):
            run.later.append(request)  # said when the supervisor is reached; if it is dead, the run is buried
            self._reach(run)

    def _undo(self, run: Supervised, event: PrepareFailed | Cleaned) -> None:
        """Nothing was started: remove what was made and tell why."""
        self._forget(run.key)
        self._post(event)

    # --- supervisors

    def _post(self, event: AgentEvent) -> None:
        if isinstance(event, Cleaned | PrepareFailed):
            self._cores.give_back(event.key)
        # Not at once: an effect is carried out in the middle of others, and its event may cause more.
        asyncio.get_running_loop().call_soon(self._take, event)

    def _new_run(self, key: RunKey, first: bool) -> Supervised:
        return Supervised(key, first, self._post, self._lost_sight)

    def _lost_sight(self, run: Supervised) -> None:
        """A connection ended: the run is over, its supervisor lives and hung up, or it is dead."""
        if self._runs.get(run.key) is run and not run.over:
            self._reach(run)

    def _reach(self, run: Supervised) -> None:
        """Connect to the run's supervisor if it lives; if it does not, end what it left."""
        self._spawn(self._reach_or_bury(run))

    async def _reach_or_bury(self, run: Supervised) -> None:
        path = self.spool.record_path(run.key)
        while self._runs.get(run.key) is run and not run.connected:
            lock = records.lock_record(path)
            if lock is not None:
                try:
                    await self._take_over(run, lock)
                finally:
                    os.close(lock)
                return
            connection = _connect(self.spool.directory(run.key))
            if connection is None:
                await asyncio.sleep(_RECONNECT_S)
                continue
            run.attach(connection)
            for request in run.later:
                run.ask(**request)
            run.later.clear()

    async def _take_over(self, run: Supervised, lock: int) -> None:
        """The supervisor is dead and we hold its lock: read its last words, end what it left."""
        run.learn(records.read_record(lock))
        run.wake_steps()
        if run.over:
            return
        launch = self.spool.launch_of(run.key)
        if not run.record and not run.launched:
            # An earlier agent died in the middle of the launch. It will be ordered again, or stopped.
            if any(request["do"] == "stop" for request in run.later):
                self._undo(
                    run, Cleaned(run.key, _wall())
                )  # a supervisor still to come finds the lock taken, or nothing
            return
        log.error("run.supervisor_died", job=run.key.job, run=run.key.run, said=self._log_of(run.key)[-2000:])
        script = (run.record.get("pid", 0), run.record.get("pid_start", 0))
        while not await asyncio.to_thread(self._hunted_down, run.key, launch["token"], script):
            await asyncio.sleep(_HUNT_PAUSE_S)
        self._bury(run, lock=lock)

    def _hunted_down(self, key: RunKey, token: str, script: tuple[int, int]) -> bool:
        """One round of KILL to what a dead supervisor left, found by its groups and by its mark; True if none was."""
        grouped = self._groups.kill(key)
        return processes.kill_marked(token, script) and grouped

    def _bury(self, run: Supervised, lock: int | None = None, quiet: bool = False) -> None:
        """Write the end of a run whose supervisor died; nothing of it is left."""
        record = dict(run.record) or {"phase": records.ORDERED, "signals": 0}
        if record["phase"] in (records.OPEN, records.EXITED):
            clean = {"at": _wall(), "elapsed_s": 0, "timed_out": False, "node_failed": "exited" not in record}
            record.update(phase=records.CLEAN, clean=clean)
        else:
            text = f"the run's supervisor on node {self._node} died before the run started"
            record.update(phase=records.FAILED, failed={"blame": "node", "text": text, "reason": ""})
        held = lock if lock is not None else records.lock_record(self.spool.record_path(run.key))
        if held is not None:
            try:
                records.write_record(held, record, sync=True)
            except OSError as error:
                log.error("run.bury", job=run.key.job, run=run.key.run, error=str(error))
            if lock is None:
                os.close(held)
        run.learn(record, quiet)

    def _log_of(self, key: RunKey) -> str:
        try:
            return (self.spool.directory(key) / "log").read_text(errors="replace")
        except FileNotFoundError:
            return ""

    def _recorded_steps(self, key: RunKey) -> list[StepDone]:
        directory = self.spool.directory(key) / "steps"
        found = []
        for step in sorted(directory.iterdir()) if directory.exists() else ():
            if done := records.read_record_at(f"{step}/record"):
                number = StepId(int(step.name))
                found.append(StepDone(key, number, Instant(done["at"]), done["code"], done["signal"]))
        return found

    def _launch_file(self, key: RunKey, launch: LaunchSpec) -> dict[str, Any]:
        token = secrets.token_hex(16)
        cores = self._cores.take(key, launch.cpus, launch.gpu_indices)
        chdir = launch.chdir or "/"
        fields = FileFields(
            job=key.job, user=launch.user, name=launch.job_name, node=self._node, restarts=launch.restarts
        )
        output = str(Path(chdir) / fill_pattern(launch.output or DEFAULT_OUTPUT, fields))
        error = str(Path(chdir) / fill_pattern(launch.error, fields)) if launch.error else ""
        return {
            "version": 1,
            "key": str(key),
            "token": token,
            "boot_id": self._boot_id,
            "first": launch.node_index == 0,
            "uid": launch.uid,
            "gid": launch.gid,
            "user": launch.user,
            "chdir": chdir,
            "output": output,
            "error": error,
            "append": launch.open_append,
            "umask": launch.umask,
            "time_limit_s": launch.time_limit_s,
            "grace_s": launch.grace_s,
            "groups": msgspec.to_builtins(self._groups.make(key, self._limits(launch, cores))),
            "cores": list(cores),
            "args": list(launch.args),
            "environment": {**_home_of(launch), **job_environment(key, launch, self._node, self._socket, token)},
        }

    def _limits(self, launch: LaunchSpec, cores: tuple[int, ...]) -> Limits:
        minors = None
        if self._gpu_minors is not None:
            minors = tuple(self._gpu_minors[index] for index in launch.gpu_indices if index in self._gpu_minors)
        return Limits(memory_mib=launch.mem_mib, pids=self._pids, cpus=launch.cpus, cores=cores, gpu_minors=minors)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("executor.task", error=repr(error))


def _step_request(request: OpenStep, own: dict[str, str]) -> dict[str, Any]:
    return {
        "argv": list(request.argv),
        "environment": {**request.environment, **own},
        "chdir": request.chdir,
        "tasks": [{"rank": task.rank, "environment": task.environment} for task in request.tasks],
        "kill_on_bad_exit": request.kill_on_bad_exit,
    }


def _home_of(launch: LaunchSpec) -> dict[str, str]:
    """The user's HOME as this node knows it, where the submission brought none (--export=NONE)."""
    if "HOME" in launch.environment:
        return {}
    try:
        return {"HOME": pwd.getpwuid(launch.uid).pw_dir}
    except KeyError:
        return {}


def _port_is_free(port: int) -> bool:
    """Bind the rendezvous port once."""
    with sockets.socket() as probe:
        probe.setsockopt(sockets.SOL_SOCKET, sockets.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
        return True


def _connect(directory: Path) -> sockets.socket | None:
    """Connect to the supervisor in a run directory, by a path that is short whatever the spool's is."""
    try:
        fd = os.open(directory, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    connection = sockets.socket(sockets.AF_UNIX)
    connection.setblocking(False)
    try:
        connection.connect(f"/proc/self/fd/{fd}/sock")
    except OSError:
        connection.close()
        return None
    finally:
        os.close(fd)
    return connection


def _wall() -> Instant:
    return Instant(time.time_ns() // 1_000_000)
