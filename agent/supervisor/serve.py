"""The supervisor's loop: children's ends, requests on its socket, deadlines. One thread, no library.

Protocol, version 1: one JSON object a line, both ways. A listener is greeted with {"event": "hello", "version": 1,
"record": ...}; then it is told of each change (`run.py`, `steps.py` say with which fields). Requests:

    {"do": "start"}  {"do": "stop", "grace_s": 30}  {"do": "signal", "number": 0, "signal": 10}
    {"do": "open_step", "step": 0}  {"do": "signal_step", "step": 0, "signal": 15}  {"do": "status"}  {"do": "bye"}

What this version does not know is answered with {"event": "unknown", ...} and otherwise ignored.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from types import FrameType

    from agent.supervisor import processes, records
    from agent.supervisor.clocks import boot_ms
    from agent.supervisor.run import Run
else:
    import processes
    import records
    from clocks import boot_ms
    from run import Run

VERSION: Final = 1
LINE_MAX: Final = 64 * 1024  # bytes of one request
WAIT_MS_MAX: Final = 30_000  # poll counts without suspend: look at the boot clock again at least so often


class Listener:
    """One connection; it is dropped when it does not keep up or talks nonsense."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.open = True
        self._buffer = b""

    def say(self, message: dict[str, Any]) -> None:
        try:
            line = records.compact(message).encode() + b"\n"
            if self.sock.send(line) != len(line):
                self.open = False
        except OSError:
            self.open = False

    def lines(self) -> list[bytes]:
        """The requests that are whole now; closes itself at the end of the stream."""
        try:
            data = self.sock.recv(LINE_MAX)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        *whole, self._buffer = (self._buffer + data).split(b"\n")
        if not data or len(self._buffer) > LINE_MAX:
            self.open = False
        return whole


class Supervisor:
    """Serves one run until nothing of it is left."""

    def __init__(self, launch: dict[str, Any], record_fd: int, first_listener: socket.socket | None) -> None:
        self._listeners = [Listener(first_listener)] if first_listener is not None else []
        self._run = Run(launch, record_fd, self._tell)
        self._door = socket.socket(socket.AF_UNIX)
        self._door.bind("sock")  # relative: a spool's path may be longer than a socket's may be
        self._door.listen(16)
        self._door.setblocking(False)
        self._wake, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _nothing)
        # Handled, not ignored: what is ignored would be ignored in the user's processes too.
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, _nothing)
        signal.signal(signal.SIGTERM, self._asked_to_end)  # the machine goes down: end in order, with a record

    def serve(self) -> None:
        """Prepare the run, then live as long as it does."""
        for listener in self._listeners:
            self._greet(listener)
        self._run.prepare()
        while not self._run.over:
            self._wait()
            self._reap()
            if not self._run.over:
                self._run.on_time()

    def _wait(self) -> None:
        """Sleep until something happens, and hear it."""
        due = self._run.next_due()
        timeout = WAIT_MS_MAX if due is None else min(max(due - boot_ms(), 0), WAIT_MS_MAX)
        troubles = self._run.steps.trouble_fds()
        by_fd = {listener.sock.fileno(): listener for listener in self._listeners}
        poll = select.poll()
        for fd in (self._wake, self._door.fileno(), *troubles, *by_fd):
            poll.register(fd, select.POLLIN)
        for fd, _ in poll.poll(timeout):
            if self._run.over:
                return
            if fd == self._wake:
                os.read(self._wake, 4096)
            elif fd == self._door.fileno():
                self._accept()
            elif fd in by_fd:
                self._hear(by_fd[fd])
            else:
                self._run.steps.on_trouble(fd)
        for listener in [listener for listener in self._listeners if not listener.open]:
            listener.sock.close()
            self._listeners.remove(listener)

    def _reap(self) -> None:
        while not self._run.over:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._run.on_alone()
                return
            if pid == 0:
                return
            self._run.on_child(pid, status)

    def _accept(self) -> None:
        try:
            sock, _ = self._door.accept()
        except OSError:
            return
        listener = Listener(sock)
        self._listeners.append(listener)
        self._greet(listener)

    def _greet(self, listener: Listener) -> None:
        listener.say({"event": "hello", "version": VERSION, "record": self._run.record})

    def _hear(self, listener: Listener) -> None:
        for line in listener.lines():
            if self._run.over:
                return
            try:
                request = json.loads(line)
                known = self._do(request, listener)
            except (ValueError, TypeError, KeyError) as error:
                listener.say({"event": "unknown", "text": f"not a request: {error!r}"})
            else:
                if not known:
                    listener.say({"event": "unknown", "text": f"version {VERSION} cannot do {request['do']!r}"})

    def _do(self, request: dict[str, Any], listener: Listener) -> bool:
        match request["do"]:
            case "start":
                self._run.start()
            case "stop":
                self._run.stop(int(request["grace_s"]))
            case "signal":
                self._run.signal(int(request["number"]), int(request["signal"]))
            case "open_step":
                self._run.open_step(int(request["step"]))
            case "signal_step":
                self._run.steps.signal(int(request["step"]), int(request["signal"]))
            case "status":
                self._greet(listener)
            case "bye":
                listener.open = False
            case _:
                return False
        return True

    def _tell(self, message: dict[str, Any]) -> None:
        for listener in self._listeners:
            listener.say(message)

    def _asked_to_end(self, _number: int, _frame: FrameType | None) -> None:
        self._run.stop(self._run.launch["grace_s"])


def _nothing(_number: int, _frame: FrameType | None) -> None:
    """A signal must have a handler for the wake-up descriptor to hear of it."""


def supervise(directory: str, listener: socket.socket | None) -> int:
    """Be the supervisor of the run in `directory`; gives the exit status. 75: it has one already."""
    os.chdir(directory)
    os.umask(0o077)
    record_fd = records.lock_record("record")
    if record_fd is None:
        return 75
    try:
        processes.become_subreaper()
        with contextlib.suppress(FileNotFoundError):
            os.unlink("sock")  # of one that died; we hold the lock
        Supervisor(records.read_json("launch"), record_fd, listener).serve()
    except BaseException:
        _write_down(sys.exc_info()[1])
        return 70
    return 0


def _write_down(error: BaseException | None) -> None:
    import traceback

    with open("log", "a", encoding="utf-8", errors="replace") as file:
        traceback.print_exception(error, file=file)
