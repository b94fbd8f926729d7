"""The steps of a run on this node: their tasks' processes, output files and ends.

The agent writes steps/STEP/open; the tasks' output goes to files there, from which the agent streams it. A task is a
session of its own; what it leaves behind in that session is killed when the step ends, the rest when the run does.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.supervisor import children, identity, processes, records
    from agent.supervisor.clocks import boot_ms, wall_ms
else:
    import children
    import identity
    import processes
    import records
    from clocks import boot_ms, wall_ms

BAD_EXIT_GRACE_MS: Final = 5000  # with kill_on_bad_exit: between TERM and KILL
LOST: Final = (0, signal.SIGKILL)  # the end of a task that the run's end took away


class Step:
    """One step's tasks here. `ends` is in the order in which the tasks ended."""

    def __init__(self, number: int, request: dict[str, Any]) -> None:
        self.number = number
        self.request = request
        self.directory = f"steps/{number}"
        self.running: dict[int, int] = {}  # pid -> rank
        self.sessions: set[int] = set()
        self.ends: dict[int, tuple[int, int]] = {}  # rank -> (exit code, signal)
        self.not_started: dict[int, int] = {}  # rank -> exit code, where exec failed
        self.kill_at: int | None = None  # boot ms
        self.ends_fd = -1
        self.record_fd = -1


class Steps:
    """All steps of the run that were ever opened here."""

    def __init__(self, launch: dict[str, Any], tell: Callable[[dict[str, Any]], None]) -> None:
        self.who = identity.Identity(-1, -1)
        self._launch = launch
        self._tell = tell
        self._steps: dict[int, Step] = {}
        self._troubles: dict[int, tuple[Step, int, children.Child]] = {}  # descriptor -> whose exec it tells of

    def open(self, number: int) -> None:
        """Start a step's tasks; the same step again is only confirmed."""
        if number not in self._steps:
            try:
                step = Step(number, records.read_json(f"steps/{number}/open"))
                self._make_files(step)
            except (OSError, ValueError) as error:
                self._tell({"event": "step_refused", "step": number, "text": f"the step could not be opened: {error}"})
                return
            self._steps[number] = step
            for task in step.request["tasks"]:
                self._start_task(step, task)
        self._tell({"event": "step_open", "step": number})
        self._finish_if_done(self._steps[number])

    def signal(self, number: int, what: int) -> None:
        """Send a signal to every process of a step that is still to be found as its own."""
        if (step := self._steps.get(number)) is not None and step.running:
            self._send(step, what)

    def on_child(self, pid: int, status: int) -> None:
        for step in self._steps.values():
            if (rank := step.running.get(pid)) is not None:
                self._learn_exec_of(pid)
                del step.running[pid]
                code = step.not_started.get(rank, os.waitstatus_to_exitcode(status))
                self._task_ended(step, rank, (max(code, 0), max(-code, 0)))
                return

    def on_time(self, now: int) -> None:
        for step in self._steps.values():
            if step.kill_at is not None and now >= step.kill_at:
                step.kill_at = None
                self._send(step, signal.SIGKILL)

    def next_due(self) -> int | None:
        return min((step.kill_at for step in self._steps.values() if step.kill_at is not None), default=None)

    def trouble_fds(self) -> list[int]:
        return list(self._troubles)

    def on_trouble(self, fd: int) -> None:
        step, rank, child = self._troubles.pop(fd)
        if (trouble := children.read_trouble(child)) is not None:
            code, text = trouble
            step.not_started[rank] = code
            with open(f"{step.directory}/{rank}.err", "ab") as file:
                file.write(f"gsched: task {rank}: {text}\n".encode(errors="surrogateescape"))

    def all_gone(self) -> None:
        """The run is over: whatever was not seen to end was killed."""
        for step in self._steps.values():
            for rank in list(step.running.values()):
                self._task_ended(step, rank, LOST)
            step.running.clear()
            self._finish_if_done(step)

    # --- inside

    def _make_files(self, step: Step) -> None:
        """Allocate what records the ends, so that a full disk cannot lose them."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        step.ends_fd = os.open(f"{step.directory}/ends", flags, 0o600)
        os.posix_fallocate(step.ends_fd, 0, max(1, len(step.request["tasks"])) * records.END_SIZE)
        records.create_record(f"{step.directory}/record")
        step.record_fd = os.open(f"{step.directory}/record", os.O_RDWR | os.O_CLOEXEC)

    def _start_task(self, step: Step, task: dict[str, Any]) -> None:
        rank = task["rank"]
        environment = {**step.request["environment"], **task["environment"]}
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        fds: list[int] = []
        try:
            for suffix in ("out", "err"):
                fds.append(os.open(f"{step.directory}/{rank}.{suffix}", flags, 0o600))
            command = children.Command(
                argv=step.request["argv"],
                environment=environment,
                chdir=step.request["chdir"],
                umask=self._launch["umask"],
                stdout=fds[0],
                stderr=fds[1],
                search=True,
            )
            child = children.start(command, self.who)
        except OSError as error:
            self._tell({"event": "trouble", "text": f"step {step.number}, task {rank}: {error}"})
            self._task_ended(step, rank, (1, 0))
            return
        finally:
            for fd in fds:
                os.close(fd)
        step.running[child.pid] = rank
        step.sessions.add(child.pid)
        self._troubles[child.trouble] = (step, rank, child)

    def _learn_exec_of(self, pid: int) -> None:
        for fd, (_, _, child) in list(self._troubles.items()):
            if child.pid == pid:
                self.on_trouble(fd)

    def _task_ended(self, step: Step, rank: int, end: tuple[int, int]) -> None:
        step.ends[rank] = end
        place = (len(step.ends) - 1) * records.END_SIZE
        os.pwrite(step.ends_fd, records.end_line(rank, *end), place)
        self._tell({"event": "task", "step": step.number, "rank": rank, "code": end[0], "signal": end[1]})
        if step.request["kill_on_bad_exit"] and end != (0, 0) and step.running and step.kill_at is None:
            self._send(step, signal.SIGTERM)
            step.kill_at = boot_ms() + BAD_EXIT_GRACE_MS
        self._finish_if_done(step)

    def _finish_if_done(self, step: Step) -> None:
        if step.running or step.record_fd < 0 or len(step.ends) < len(step.request["tasks"]):
            return
        step.kill_at = None
        if not processes.alone():
            self._send(step, signal.SIGKILL)
        codes = list(step.ends.values())
        record = {
            "at": wall_ms(),
            "code": max((code for code, _ in codes), default=0),
            "signal": max((number for _, number in codes), default=0),
        }
        records.write_record(step.record_fd, record)
        os.close(step.record_fd)
        os.close(step.ends_fd)
        step.record_fd = -1
        self._tell({"event": "step_done", "step": step.number, **record})

    def _send(self, step: Step, what: int) -> None:
        everything = processes.descendants()
        below = {process.pid for process in processes.below(set(step.running), everything)} | set(step.running)
        pids = [p.pid for p in everything if p.pid in below or p.session in step.sessions]
        processes.send(pids, what)
