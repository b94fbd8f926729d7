"""One run on one node: prepare, start, watch, end; every change goes to the record first and then to who listens.

    ordered -> ready -> open -> (first node: exited) -> clean          failed: prepare or start went wrong, all undone

Durations (time limit, grace) are measured here, on CLOCK_BOOTTIME, so that they hold while nobody listens. The script
runs on the first node only; steps (`steps.py`) on all. When the script has ended, what is left of the run is ended too.
"""

from __future__ import annotations

import errno
import os
import signal
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.supervisor import children, group, identity, processes, records
    from agent.supervisor.clocks import boot_ms, wall_ms
    from agent.supervisor.steps import Steps
else:
    import children
    import group
    import identity
    import processes
    import records
    from clocks import boot_ms, wall_ms
    from steps import Steps

AFTER_EXIT_S: Final = 5  # grace for what outlives the script, at most
BACKSTOP_S: Final = 60  # how much later than the first node the others end a run by its time limit
KILL_AGAIN_MS: Final = 200
NODES_FAULT: Final = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EIO)  # of a fork or an exec


class Run:
    """The run of this supervisor. `tell` is called with each message that listeners should hear."""

    def __init__(self, launch: dict[str, Any], record_fd: int, tell: Callable[[dict[str, Any]], None]) -> None:
        self.launch = launch
        self.first: bool = launch["first"]
        self.record: dict[str, Any] = records.read_record(record_fd) or {"phase": records.ORDERED, "signals": 0}
        self.over = False  # clean or failed: the supervisor may go
        self._fd = record_fd
        self._tell = tell
        self._who = identity.Identity(-1, -1)
        self._outputs: list[int] = []
        self._script = 0  # its pid; 0 = not started here
        self._limit_at: int | None = None  # boot ms
        self._ending = False
        self._kill_at: int | None = None  # boot ms
        self._timed_out = False
        self._group = group.Group(launch)
        self.steps = Steps(launch, tell)

    # --- what listeners ask for

    def prepare(self) -> None:
        """See that all of it can be started; nothing of the user's runs."""
        launch = self.launch
        try:
            self._group.enter()
            self._who = identity.identify(launch["uid"], launch["gid"], launch["user"])
            if self.first:
                paths = list(dict.fromkeys((launch["output"], launch["error"] or launch["output"])))
                self._outputs = identity.open_outputs(
                    self._who, paths, launch["append"], launch["umask"], launch["chdir"]
                )
        except identity.Refusal as refusal:
            self._fail(refusal.blame, refusal.text, refusal.reason)
        except OSError as error:
            self._fail("node", f"the supervisor could not prepare the run: {error}")
        except ValueError as error:  # a NUL character in a path
            self._fail("job", f"cannot use the job's paths: {error}", "JobLaunchFailure")
        else:
            self.steps.who = self._who
            self._set(phase=records.READY)

    def start(self) -> None:
        """Open the run for steps; on the first node start the script. Once only."""
        if self.record["phase"] != records.READY or self._ending:
            return
        if not self.first or self._start_script():
            self._opened()

    def stop(self, grace_s: int) -> None:
        """End the run: TERM to everything, KILL after the grace. A later stop can only shorten the grace."""
        if not self.over:
            self._end(grace_s)

    def signal(self, number: int, what: int) -> None:
        """Deliver the number-th signal (from 0) to every process of the run, once."""
        if number == self.record["signals"]:
            self._set(signals=number + 1)  # before: a signal that came twice would be worse than one that got lost
            processes.end_run(what, self._group)

    def open_step(self, step: int) -> None:
        """Start the tasks that the agent has written down in steps/STEP."""
        if self.record["phase"] != records.OPEN or self._ending:
            self._tell({"event": "step_refused", "step": step, "text": "the run is not open for steps"})
        else:
            self.steps.open(step)

    # --- what happens

    def on_child(self, pid: int, status: int) -> None:
        """A child was waited for: the script, a task, or an orphan of theirs."""
        if pid == self._script:
            self._script_ended(status)
        else:
            self.steps.on_child(pid, status)

    def on_time(self) -> None:
        """Do what is due: the time limit, the end of the grace."""
        now = boot_ms()
        if self._limit_at is not None and now >= self._limit_at and not self._ending:
            self._timed_out = True
            self._end(self.launch["grace_s"])
        if self._kill_at is not None and now >= self._kill_at:
            processes.end_run(signal.SIGKILL, self._group)
            self._kill_at = now + KILL_AGAIN_MS
        self.steps.on_time(now)

    def on_alone(self) -> None:
        """No process of the run is left below this one."""
        if self._ending and not self.over:
            self._clean()

    def next_due(self) -> int | None:
        """When on_time has something to do, boot ms."""
        limit = None if self._ending else self._limit_at
        due = [at for at in (limit, self._kill_at, self.steps.next_due()) if at is not None]
        return min(due, default=None)

    # --- inside

    def _start_script(self) -> bool:
        launch = self.launch
        command = children.Command(
            argv=[launch["script"], *launch["args"]],
            environment=launch["environment"],
            chdir=launch["chdir"],
            umask=launch["umask"],
            stdout=self._outputs[0],
            stderr=self._outputs[-1],
        )
        try:
            self._script = children.run_script(command, self._who)
        except OSError as error:
            at_dir = error.filename == launch["chdir"]
            what = f"enter the working directory {launch['chdir']}" if at_dir else "execute the script"
            blame = "node" if error.errno in NODES_FAULT else "job"
            self._fail(blame, f"cannot {what}: {os.strerror(error.errno or 0)}{self._hint(error)}", "JobLaunchFailure")
            return False
        except ValueError as error:  # a NUL character where the kernel wants none
            self._fail("job", f"cannot execute the script: {error} in its arguments or environment", "JobLaunchFailure")
            return False
        for fd in self._outputs:
            os.close(fd)
        self._outputs = []
        return True

    def _hint(self, error: OSError) -> str:
        """For a missing interpreter: its name, which the kernel does not tell.

        Not for another user's script: that user could put anything in its place for root to read.
        """
        if error.errno != errno.ENOENT or error.filename == self.launch["chdir"] or self._who.groups is not None:
            return ""
        with open(self.launch["script"], "rb") as file:
            first = file.readline(256).decode(errors="replace").strip()
        return f" (its first line is {first!r})"

    def _opened(self) -> None:
        now = boot_ms()
        process = processes.look_at(self._script) if self._script else None
        if limit_s := self.launch["time_limit_s"]:
            self._limit_at = now + 1000 * (limit_s + (0 if self.first else BACKSTOP_S))
        self._set(
            phase=records.OPEN,
            opened=wall_ms(),
            opened_boot=now,
            pid=self._script,
            pid_start=process.start if process is not None else 0,
        )

    def _script_ended(self, status: int) -> None:
        code = os.waitstatus_to_exitcode(status)
        self.record["exited"] = {
            "at": wall_ms(),
            "code": max(code, 0),
            "signal": max(-code, 0),
            "timed_out": self._timed_out,
            "elapsed_s": self._elapsed_s(),
            "oom_kills": self._group.oom_kills(),
        }
        if not self._ending:
            self._ending = True
            if not processes.alone():
                self._end(min(AFTER_EXIT_S, self.launch["grace_s"]), again=True)
        if processes.alone():
            self._clean()
        else:
            self._set(sync=True, phase=records.EXITED)

    def _end(self, grace_s: int, again: bool = False) -> None:
        kill_at = boot_ms() + 1000 * grace_s
        if again or not self._ending:
            processes.end_run(signal.SIGTERM, self._group)
        self._ending = True
        self._kill_at = kill_at if self._kill_at is None else min(self._kill_at, kill_at)
        if processes.alone():
            self._clean()

    def _clean(self) -> None:
        if self.over:
            return
        self.over = True
        self.steps.all_gone()
        clean = {
            "at": wall_ms(),
            "elapsed_s": self._elapsed_s(),
            "timed_out": self._timed_out,
            "oom_kills": self._group.oom_kills(),
        }
        # A run whose exit status is recorded already may lose this to a power cut: then nothing is left of it anyway.
        self._set(sync=self.record["phase"] != records.EXITED, phase=records.CLEAN, clean=clean)

    def _fail(self, blame: str, text: str, reason: str = "") -> None:
        self.over = True
        failed = {"blame": blame, "text": text[: records.TEXT_MAX], "reason": reason}
        self._set(sync=True, phase=records.FAILED, failed=failed)

    def _elapsed_s(self) -> int:
        since = self.record.get("opened_boot")
        return 0 if since is None else (boot_ms() - since) // 1000

    def _set(self, sync: bool = False, **changes: Any) -> None:
        self.record.update(changes)
        records.write_record(self._fd, self.record, sync)
        if sync:
            records.sync_directory(".")
            records.sync_directory("..")
        self._tell({"event": "state", "record": self.record})
